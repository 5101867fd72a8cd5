/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the route of a plan: a vendor's library if the backend has one that supports the network; else layers.c, either by the backend's
 * scan or, on route composed, by its products and kernels.  The route is chosen once, when the plan is opened; only T decides
 * whether a call has more steps than a vendor's library takes and runs on route composed.  Since only T decides, the forward and the
 * backward pass of a call use the same route.  If the vendor's library fails later, the call fails, and no other route is tried.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/rnn/rnn.h"

static const char composed[] = "composed", scan[] = "scan";
static const char *const ours[] = { composed, scan };
enum { ROUTES_MAX = 8, OURS = sizeof ours / sizeof *ours };

static const char *const roundings[CG_DTYPE_COUNT] = {
	[CG_F32] = "everything in f32",
	[CG_F64] = "everything in f64",
	[CG_F16] = "sums, c, dh and dc in f32; h, gates and dgates in 16 bits",
	[CG_BF16] = "sums, c, dh and dc in f32; h, gates and dgates in 16 bits",
};

const char *cg_rnn_route_name(int k, const char *const **rounds)
{
	const char *const *none;

	rounds = rounds ? rounds : &none;
	*rounds = roundings;
	if (k < OURS)
		return ours[k];
	k -= OURS;
	for (const struct cg_backend *const *b = cg_backends; *b; b++)
		if ((*b)->net && !k--) {
			*rounds = (*b)->net->roundings;
			return (*b)->net->name;
		}
	return NULL;
}

const char *cg_rnn_route_of_reserve(const char *route)
{
	return strcmp(route, scan) ? route : composed;
}

/* Checks that `route` is NULL or the name of a route of this build.  A route of a backend that is not open passes this check, too. */
int cg_rnn_check_route(const char *route)
{
	const char *names[ROUTES_MAX];
	char all[CG_WHY_NOT];
	int n = 0;

	if (!route)
		return CG_OK;
	for (; n < ROUTES_MAX && (names[n] = cg_rnn_route_name(n, NULL)); n++)
		if (!strcmp(route, names[n]))
			return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "rnn: route: expected %s, or NULL for the best route, got '%.40s'",
	               cg_list_names(all, sizeof all, names, n, "or"), route);
}

/* Adds the route's name and its library's stamp to the fingerprint, since the contents of the reserve space depend on both. */
static void set_fingerprint(struct cg_rnn *rnn, const struct cg_net_route *route)
{
	uint64_t stamp = route->stamp(rnn->vendor);

	rnn->fingerprint = cg_fingerprint(rnn->fingerprint, route->name, strlen(route->name));
	rnn->fingerprint = cg_fingerprint(rnn->fingerprint, &stamp, sizeof stamp);
}

static void describe_beyond(struct cg_rnn *rnn, const struct cg_net_route *route)
{
	char why[CG_WHY_NOT] = "";

	if (route->declines(rnn->vendor, INT64_MAX, why))
		snprintf(rnn->beyond, sizeof rnn->beyond, "%s (%s: not %s)", composed, why, route->name);
}

/* Opens route scan if the backend supports scan for this network and the caller did not ask for composed; else opens composed, or fails if
 * the caller asked for scan.  not_vendor: the reason against the vendor's route; NULL: that route was not tried. */
static int open_ours(struct cg_rnn *rnn, const char *wanted, const char *not_vendor)
{
	const struct cg_backend *backend = rnn->context->backend;
	char why[CG_WHY_NOT] = "";

	rnn->scans = (!wanted || strcmp(wanted, composed)) && cg_rnn_can_scan(rnn, why);
	if (wanted && !rnn->scans && strcmp(wanted, composed))
		return cg_fail(CG_UNSUPPORTED, "rnn: route: scan does not support this network (%s); composed does", why);
	if (not_vendor)
		snprintf(rnn->route, sizeof rnn->route, "%s (%s: not %s)", rnn->scans ? scan : composed, not_vendor, backend->net->name);
	else if (*why && backend->scan_work)
		snprintf(rnn->route, sizeof rnn->route, "%s (%s: not %s)", composed, why, scan);
	else
		snprintf(rnn->route, sizeof rnn->route, "%s", rnn->scans ? scan : composed);
	return CG_OK;
}

/* Is the route composed, which every backend has, or scan, on a backend that has a scan? */
static int is_ours(const struct cg_rnn *rnn, const char *route)
{
	return !strcmp(route, composed) || (!strcmp(route, scan) && rnn->context->backend->scan_work);
}

int cg_rnn_open_route(struct cg_rnn *rnn, const char *wanted)
{
	const struct cg_net_route *route = rnn->context->backend->net;
	char why[CG_WHY_NOT] = "";
	int code;

	if (wanted ? is_ours(rnn, wanted) : !route)
		return open_ours(rnn, wanted, NULL);
	if (wanted && (!route || strcmp(wanted, route->name)))
		return cg_fail(CG_UNSUPPORTED, "rnn: route: %s: the %s backend has no such route; composed supports every network", wanted,
		               rnn->context->backend->name);
	rnn->net.name = rnn->text.cell;
	rnn->net.options = rnn->text.options;
	code = route->open(rnn->context->device, &rnn->net, &rnn->vendor, why);
	if (code && !*why)
		return cg_fail_in(code, "rnn");
	if (code && wanted)
		return cg_fail_in(code, "rnn: route: %s", route->name);
	if (code)
		return open_ours(rnn, NULL, why);
	snprintf(rnn->route, sizeof rnn->route, "%s", route->name);
	rnn->by_name = wanted != NULL;
	describe_beyond(rnn, route);
	set_fingerprint(rnn, route);
	return CG_OK;
}

void cg_rnn_close_route(struct cg_rnn *rnn)
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
	return cg_fail(CG_UNSUPPORTED, "rnn: route: %s does not compute a call that has %s, got T=%lld", route->name, why, (long long)T);
}

/* Runs a call of a vendor's plan on route composed; the kernels are compiled at the first such call. */
static int run_composed(struct cg_stream *stream, const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *call,
                        struct cg_rnn_shape *shape, struct cg_mem work)
{
	struct cg_rnn other = *rnn;

	other.vendor = NULL;
	CG_TRY(cg_rnn_compile(&other));
	return (pass == CG_FORWARD ? cg_layers_forward : cg_layers_backward)(stream, &other, call, shape, work);
}

int cg_rnn_run(struct cg_stream *stream, const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *call,
               struct cg_rnn_shape *shape, struct cg_mem work)
{
	const struct cg_net_route *route = rnn->context->backend->net;

	if (shape->is_vendors && !shape->is_plain)
		return cg_vendor_run(stream, rnn, pass, call, shape, work);
	if (shape->is_vendors)
		return (pass == CG_FORWARD ? route->forward : route->backward)(stream->queue, rnn->vendor, call, work);
	if (rnn->vendor)
		return run_composed(stream, rnn, pass, call, shape, work);
	return (pass == CG_FORWARD ? cg_layers_forward : cg_layers_backward)(stream, rnn, call, shape, work);
}
