/*
 * Which way the calls of a plan go: a vendor's library for whole networks, where the backend has one that takes this network, else
 * layers.c over the backend's products and kernels.  That is decided once, when the plan is opened, so that a forward and its backward
 * go the same way; a library that fails later fails the call, and nothing else is tried in its place.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/rnn/rnn.h"

static const char composed[] = "composed";

/*
 * Of cuDNN it is what its kernels were seen to do, tests/fake/cudnn_rnn.c says where; what follows from it for the bounds of answers
 * is in the conformance suite's reference.  `cellgrad info` shows these rows, and the documents have them, which tests/rounding.sh
 * compares.
 */
const struct cg_rounding cg_roundings[] = {
	{ "composed", "f32",  "everything in f32" },
	{ "composed", "f64",  "everything in f64" },
	{ "composed", "f16",  "sums, c, dh and dc in f32; h, gates and dgates in 16 bits" },
	{ "composed", "bf16", "sums, c, dh and dc in f32; h, gates and dgates in 16 bits" },
	{ "cudnn",    "f32",  "everything in f32, sigmoid(x) good to (4 + 2 abs(x)) 2^-24; under allow_tf32 products in TF32, tanh good to 2^-11" },
	{ "cudnn",    "f64",  "everything in f64" },
	{ "cudnn",    "f16",  "x W, R h, c, h, gates, dgates, dh and dc in 16 bits, tanh good to 2^-11; under strict_rounding composed" },
	{ "cudnn",    "bf16", "x W, R h, c, h, gates, dgates, dh and dc in 16 bits; under strict_rounding composed" },
	{ NULL, NULL, NULL }
};

/* What a caller may ask for; "scan" is for later. */
int cg_rnn_check_route(const char *route)
{
	static const char *const words[] = { composed, "cudnn" };

	if (!route)
		return CG_OK;
	for (size_t k = 0; k < sizeof words / sizeof *words; k++)
		if (!strcmp(route, words[k]))
			return CG_OK;
	if (!strcmp(route, "scan"))
		return cg_fail(CG_UNSUPPORTED, "rnn: route: scan is not in this version; composed is");
	return cg_fail(CG_BAD_ARGUMENT, "rnn: route: expected composed or cudnn, or NULL for the best, got '%.40s'", route);
}

/* A reserve is of one route, and of one version of its library. */
static void take_print(struct cg_rnn *rnn, const struct cg_net_route *route)
{
	uint64_t stamp = route->stamp(rnn->vendor);

	rnn->print = cg_fingerprint(rnn->print, route->name, strlen(route->name));
	rnn->print = cg_fingerprint(rnn->print, &stamp, sizeof stamp);
}

static void say_beyond(struct cg_rnn *rnn, const struct cg_net_route *route)
{
	char why[CG_WHY_NOT] = "";

	if (route->declines(rnn->vendor, INT64_MAX, why))
		snprintf(rnn->beyond, sizeof rnn->beyond, "%s (%s: not %s)", composed, why, route->name);
}

int cg_rnn_take_route(struct cg_rnn *rnn, const char *wanted)
{
	const struct cg_net_route *route = rnn->context->backend->net;
	char why[CG_WHY_NOT] = "";
	int code;

	snprintf(rnn->route, sizeof rnn->route, "%s", composed);
	if (wanted && !strcmp(wanted, composed))
		return CG_OK;
	if (wanted && (!route || strcmp(wanted, route->name)))
		return cg_fail(CG_UNSUPPORTED, "rnn: route: %s: the %s backend has no such route; composed is", wanted,
		               rnn->context->backend->name);
	if (!route)
		return CG_OK;
	rnn->net.name = rnn->words.cell;
	rnn->net.options = rnn->words.options;
	code = route->open(rnn->context->device, &rnn->net, &rnn->vendor, why);
	if (code && !*why)
		return cg_fail_in(code, "rnn");
	if (code && wanted)
		return cg_fail_in(code, "rnn: route: %s", route->name);
	if (code) {
		snprintf(rnn->route, sizeof rnn->route, "%s (%s: not %s)", composed, why, route->name);
		return CG_OK;
	}
	snprintf(rnn->route, sizeof rnn->route, "%s", route->name);
	rnn->by_name = wanted != NULL;
	say_beyond(rnn, route);
	take_print(rnn, route);
	return CG_OK;
}

void cg_rnn_leave_route(struct cg_rnn *rnn)
{
	if (rnn->vendor)
		rnn->context->backend->net->close(rnn->context->device, rnn->vendor);
	rnn->vendor = NULL;
}

int cg_rnn_is_beyond(const struct cg_rnn *rnn, int64_t T)
{
	char why[CG_WHY_NOT];

	return rnn->vendor && rnn->context->backend->net->declines(rnn->vendor, T, why);
}

int cg_rnn_choose_route(const struct cg_rnn *rnn, int64_t T, int *is_vendors)
{
	const struct cg_net_route *route = rnn->context ? rnn->context->backend->net : NULL;
	char why[CG_WHY_NOT] = "";

	*is_vendors = rnn->vendor && !route->declines(rnn->vendor, T, why);
	if (!rnn->vendor || *is_vendors || !rnn->by_name)
		return CG_OK;
	return cg_fail(CG_UNSUPPORTED, "rnn: route: %s: %s, got T=%lld", route->name, why, (long long)T);
}

/* The plan as it would be without its route; its kernels are ready from the first such call on. */
static int walk_composed(struct cg_stream *stream, const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *call,
                         struct cg_rnn_shape *shape, struct cg_mem work)
{
	struct cg_rnn other = *rnn;

	other.vendor = NULL;
	CG_TRY(cg_rnn_ready(&other));
	return (pass == CG_FORWARD ? cg_seq_forward : cg_seq_backward)(stream, &other, call, shape, work);
}

int cg_rnn_walk(struct cg_stream *stream, const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *call,
                struct cg_rnn_shape *shape, struct cg_mem work)
{
	const struct cg_net_route *route = rnn->context->backend->net;

	if (shape->is_vendors)
		return (pass == CG_FORWARD ? route->forward : route->backward)(stream->queue, rnn->vendor, call, work);
	if (rnn->vendor)
		return walk_composed(stream, rnn, pass, call, shape, work);
	return (pass == CG_FORWARD ? cg_seq_forward : cg_seq_backward)(stream, rnn, call, shape, work);
}
