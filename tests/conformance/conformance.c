/*
 * Every op against the independent reference, on whatever backend CELLGRAD_BACKEND names: sizes, dtypes, options, every subset of
 * what may be absent, and the same bits again.  The ops' arguments come from the op table, the tolerance from the reference.
 * CELLGRAD_TEST_SEED sets the seed; a failure prints the line that reproduces it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/op.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/reference.h"

enum { PORTS = 32, GUARD = 64, POISON = 0xa5, UNSET = 0 };

union any_op { size_t size; struct cg_lstm_block lstm; struct cg_gru_block gru; };
union any_ref { struct ref_lstm_block lstm; struct ref_gru_block gru; };

/* Where a port's numbers stand in the reference's struct: what grad saved, what it writes, what accumulate adds to. */
struct link { const char *port; size_t in, out, old; };

#define L(field) offsetof(struct ref_lstm_block, field)
#define G(field) offsetof(struct ref_gru_block, field)
static const struct link lstm_links[] = {
	{ "x", L(x), 0, 0 }, { "cs_prev", L(cs_prev), 0, 0 }, { "h_prev", L(h_prev), 0, 0 }, { "w", L(w), 0, 0 },
	{ "wci", L(wci), 0, 0 }, { "wcf", L(wcf), 0, 0 }, { "wco", L(wco), 0, 0 }, { "b", L(b), 0, 0 },
	{ "i", L(i), L(i_out), 0 }, { "cs", L(cs), L(cs_out), 0 }, { "f", L(f), L(f_out), 0 }, { "o", L(o), L(o_out), 0 },
	{ "ci", L(ci), L(ci_out), 0 }, { "co", L(co), L(co_out), 0 }, { "h", 0, L(h_out), 0 },
	{ "cs_grad", L(cs_grad), 0, 0 }, { "h_grad", L(h_grad), 0, 0 }, { "x_grad", 0, L(x_grad), 0 },
	{ "cs_prev_grad", 0, L(cs_prev_grad), 0 }, { "h_prev_grad", 0, L(h_prev_grad), 0 }, { "dicfo", 0, L(dgates), 0 },
	{ "w_grad", 0, L(w_grad), L(w_grad_old) }, { "wci_grad", 0, L(wci_grad), L(wci_grad_old) },
	{ "wcf_grad", 0, L(wcf_grad), L(wcf_grad_old) }, { "wco_grad", 0, L(wco_grad), L(wco_grad_old) },
	{ "b_grad", 0, L(b_grad), L(b_grad_old) }, { NULL, 0, 0, 0 }
};
static const struct link gru_links[] = {
	{ "x", G(x), 0, 0 }, { "h_prev", G(h_prev), 0, 0 }, { "w_ru", G(w_ru), 0, 0 }, { "w_c", G(w_c), 0, 0 },
	{ "b_ru", G(b_ru), 0, 0 }, { "b_c", G(b_c), 0, 0 }, { "r", G(r), G(r_out), 0 }, { "u", G(u), G(u_out), 0 },
	{ "c", G(c), G(c_out), 0 }, { "h", 0, G(h_out), 0 }, { "d_h", G(d_h), 0, 0 }, { "d_x", 0, G(d_x), 0 },
	{ "d_h_prev", 0, G(d_h_prev), 0 }, { "d_c_bar", 0, G(d_c_bar), 0 }, { "d_r_bar_u_bar", 0, G(d_r_bar_u_bar), 0 },
	{ "d_w_ru", 0, G(d_w_ru), G(d_w_ru_old) }, { "d_w_c", 0, G(d_w_c), G(d_w_c_old) },
	{ "d_b_ru", 0, G(d_b_ru), G(d_b_ru_old) }, { "d_b_c", 0, G(d_b_c), G(d_b_c_old) }, { NULL, 0, 0, 0 }
};

struct family {
	const char *forward, *grad;
	const struct link *links;
	int (*ref_forward)(const void *), (*ref_grad)(const void *);
};

static int lstm_forward(const void *p) { return ref_lstm_block_forward(p); }
static int lstm_grad(const void *p)    { return ref_lstm_block_grad(p); }
static int gru_forward(const void *p)  { return ref_gru_block_forward(p); }
static int gru_grad(const void *p)     { return ref_gru_block_grad(p); }

static const struct family families[] = {
	{ "lstm_block_cell", "lstm_block_cell_grad", lstm_links, lstm_forward, lstm_grad },
	{ "gru_block_cell", "gru_block_cell_grad", gru_links, gru_forward, gru_grad },
};

struct request {
	const struct family *family;
	const struct cg_op *op;
	int is_grad, dtype, peephole, gates, accumulate, scalar, device;
	struct size size;
	double scale;
	unsigned absent;                                 /* a bit for each optional port, in the table's order */
	unsigned long seed;
};

/* One argument: numbers, the same in the dtype between guards, and what the reference says. */
struct data {
	size_t n, bytes;
	double *d;
	unsigned char *memory, *before;
	struct cg_mem device;
	long double *v, *e;
	int given;
};

static struct cg_context *context;
static struct cg_stream *stream;
static unsigned long long state;
static long double worst;
static unsigned long seed_of_run = 20260101;

static double uniform(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

/* Never zero, and of no symmetry. */
static double draw(double scale)
{
	double x = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());

	return (x + (x < 0 ? -0.02 : 0.02)) * scale;
}

static void encode(int dtype, double d, void *to)
{
	float f = (float)d;
	uint32_t bits;
	uint16_t half;

	memcpy(&bits, &f, sizeof bits);
	switch (dtype) {
	case CG_F32: memcpy(to, &f, 4); return;
	case CG_F64: memcpy(to, &d, 8); return;
	case CG_BF16:
		half = (uint16_t)(bits >> 16);
		break;
	default:
		/* d is a half already: normal ones by their exponent, subnormal ones by their count of 2^-24. */
		half = fabs(d) < 0x1p-14 ? (uint16_t)(fabs(d) * 0x1p24) : (uint16_t)(((bits & 0x7fffffff) - (112u << 23)) >> 13);
		half |= (uint16_t)(bits >> 16 & 0x8000);
		if (isnan(d) || isinf(d))
			half = (uint16_t)((bits >> 16 & 0x8000) | (isnan(d) ? 0x7e00 : 0x7c00));
	}
	memcpy(to, &half, 2);
}

static double decode(int dtype, const void *from)
{
	float f;
	double d;
	uint16_t half;
	uint32_t bits;

	switch (dtype) {
	case CG_F32: memcpy(&f, from, 4); return f;
	case CG_F64: memcpy(&d, from, 8); return d;
	}
	memcpy(&half, from, 2);
	if (dtype == CG_BF16) {
		bits = (uint32_t)half << 16;
		memcpy(&f, &bits, 4);
		return f;
	}
	d = (half >> 10 & 31) == 31 ? (half & 1023 ? NAN : INFINITY)
	    : (half >> 10 & 31) ? ldexp(1024 + (half & 1023), (half >> 10 & 31) - 25) : ldexp(half & 1023, -24);
	return half & 0x8000 ? -d : d;
}

static const struct link *link_of(const struct request *r, const char *port)
{
	const struct link *l = r->family->links;

	while (l->port && strcmp(l->port, port))
		l++;
	assert_non_null(l->port);
	return l;
}

static struct cg_mem *mem_at(void *op, const struct cg_port *port)
{
	return (struct cg_mem *)(void *)((char *)op + port->at);
}

/* May a caller leave this port out whatever else he asks for? */
static int optional(const struct cg_port *port)
{
	return port->flow != CG_IN || strstr(port->name, "cs_grad") || strstr(port->name, "h_grad") || !strcmp(port->name, "d_h");
}

static void *take(size_t n, size_t bytes)
{
	void *p = calloc(n ? n : 1, bytes);

	assert_non_null(p);
	return p;
}

/* Sizes, scalars and options, for the library and the reference alike. */
static void set_up(const struct request *r, union any_op *op, union any_ref *ref)
{
	memset(ref, 0, sizeof *ref);
	r->op->init(op, r->op->size);
	if (r->family == &families[0]) {
		struct cg_lstm_block *l = &op->lstm;
		struct ref_lstm_block *q = &ref->lstm;

		l->B = q->B = r->size.B;
		l->I = q->I = r->size.I;
		l->U = q->U = r->size.U;
		l->dtype = q->dtype = r->dtype;
		l->gates = q->gates = r->gates;
		l->use_peephole = q->use_peephole = r->peephole;
		l->accumulate = q->accumulate = r->accumulate;
		l->forget_bias = q->forget_bias = scalars[r->scalar].forget_bias;
		l->cell_clip = q->cell_clip = scalars[r->scalar].cell_clip;
	} else {
		op->gru.B = ref->gru.B = r->size.B;
		op->gru.I = ref->gru.I = r->size.I;
		op->gru.U = ref->gru.U = r->size.U;
		op->gru.dtype = ref->gru.dtype = r->dtype;
		op->gru.accumulate = ref->gru.accumulate = r->accumulate;
	}
}

static void fill(const struct request *r, const struct cg_port *port, union any_op *op, struct data *a)
{
	double scale = r->scale;

	assert_int_equal(cg_op_bytes(r->op, port, op, &a->bytes), CG_OK);
	a->n = a->bytes / cg_dtype_bytes(r->dtype);
	a->d = take(a->n, sizeof *a->d);
	a->memory = take(a->bytes + 2 * GUARD, 1);
	a->before = take(a->bytes + 2 * GUARD, 1);
	a->v = take(a->n, sizeof *a->v);
	a->e = take(a->n, sizeof *a->e);
	/* Sums over many terms of order 1 would saturate every gate. */
	if (!strncmp(port->name, "w", 1) && strncmp(port->name, "wc", 2))
		scale /= sqrt((double)(r->size.I + r->size.U));
	for (size_t k = 0; k < a->n; k++)
		a->d[k] = ref_round(r->dtype, draw(scale));
}

/* The values that the gradient reads, from the reference's forward. */
static void save(const struct request *r, union any_ref *ref, struct data *args, const struct cg_port *ports)
{
	union any_ref forward = *ref;

	for (int k = 0; ports[k].name; k++) {
		const struct link *l = link_of(r, ports[k].name);

		if (ports[k].flow == CG_IN && l->out)
			*(struct ref_out *)(void *)((char *)&forward + l->out) = (struct ref_out){ args[k].v, args[k].e };
	}
	assert_int_equal(r->family->ref_forward(&forward), 0);
	for (int k = 0; ports[k].name; k++)
		for (size_t j = 0; ports[k].flow == CG_IN && link_of(r, ports[k].name)->out && j < args[k].n; j++)
			args[k].d[j] = ref_round(r->dtype, (double)args[k].v[j]);
}

static void say(const struct request *r)
{
	print_message("# %s %s B=%lld I=%lld U=%lld peephole=%d gates=%d accumulate=%d scalar=%d device=%d scale=%g absent=%#x "
	              "seed=%lu; CELLGRAD_TEST_SEED=%lu repeats the run\n", r->op->name, cg_dtype_name(r->dtype),
	              (long long)r->size.B, (long long)r->size.I, (long long)r->size.U, r->peephole, r->gates, r->accumulate,
	              r->scalar, r->device, r->scale, r->absent, r->seed, seed_of_run);
}

/* Puts each argument into memory: inputs as they are, outputs poisoned or, to be added to, with old numbers. */
static void place(const struct request *r, union any_op *op, struct data *args, const struct cg_port *ports)
{
	size_t bytes = cg_dtype_bytes(r->dtype);

	for (int k = 0; ports[k].name; k++) {
		struct data *a = &args[k];

		memset(a->memory, POISON, a->bytes + 2 * GUARD);
		if (ports[k].flow == CG_IN || (r->accumulate && ports[k].flow == CG_OUT_SUM))
			for (size_t j = 0; j < a->n; j++)
				encode(r->dtype, a->d[j], a->memory + GUARD + j * bytes);
		memcpy(a->before, a->memory, a->bytes + 2 * GUARD);
		*mem_at(op, &ports[k]) = a->given ? (struct cg_mem){ a->memory, GUARD, a->bytes, CG_HOST } : (struct cg_mem){ 0 };
		if (a->given && r->device && a->bytes) {
			assert_int_equal(cg_alloc(context, a->bytes + GUARD, &a->device), CG_OK);
			assert_int_equal(cg_put(stream, a->device, a->memory, a->bytes + GUARD), CG_OK);
			*mem_at(op, &ports[k]) = a->device;
			mem_at(op, &ports[k])->offset += GUARD;
			mem_at(op, &ports[k])->bytes -= GUARD;
		}
	}
}

static void collect(const struct request *r, struct data *args, const struct cg_port *ports)
{
	for (int k = 0; r->device && ports[k].name; k++)
		if (args[k].device.data) {
			assert_int_equal(cg_get(stream, args[k].memory, args[k].device, args[k].bytes + GUARD), CG_OK);
			cg_free(context, &args[k].device);
		}
}

static int judge(const struct request *r, struct data *args, const struct cg_port *ports)
{
	size_t bytes = cg_dtype_bytes(r->dtype);

	for (int k = 0; ports[k].name; k++) {
		struct data *a = &args[k];
		size_t touched = ports[k].flow == CG_IN || !a->given ? 0 : a->bytes;

		if (memcmp(a->memory, a->before, GUARD) ||
		    memcmp(a->memory + GUARD + touched, a->before + GUARD + touched, a->bytes - touched + GUARD)) {
			print_message("# %s: memory beside it, or an input, was written\n", ports[k].name);
			return -1;
		}
		for (size_t j = 0; touched && j < a->n; j++) {
			double got = decode(r->dtype, a->memory + GUARD + j * bytes);
			long double tolerance = ref_tolerance(r->dtype, a->v[j], a->e[j]), error = fabsl(got - a->v[j]);

			if (!ref_within(r->dtype, a->v[j], a->e[j], got)) {
				print_message("# %s[%zu]: expected %.9Lg, got %.9g: off by %.3Lg where %.3Lg is allowed\n", ports[k].name, j,
				              a->v[j], got, error, tolerance);
				return -1;
			}
			if (tolerance > 0 && isfinite((double)tolerance) && error / tolerance > worst)
				worst = error / tolerance;
		}
	}
	return 0;
}

static void run(const struct request *r)
{
	const struct cg_port *ports = r->op->ports;
	struct data args[PORTS] = { { .n = 0 } };
	unsigned char *first[PORTS] = { NULL };
	union any_ref ref;
	union any_op op;
	size_t work = 0;
	void *scratch;
	int bit = 0, wrong = 0;

	state = r->seed;
	set_up(r, &op, &ref);
	for (int k = 0; ports[k].name; k++) {
		const struct link *l = link_of(r, ports[k].name);

		fill(r, &ports[k], &op, &args[k]);
		args[k].given = !(optional(&ports[k]) && r->absent >> bit++ & 1);
		if (ports[k].flow == CG_IN && args[k].given)
			*(struct ref_in *)(void *)((char *)&ref + l->in) = (struct ref_in){ .d = args[k].d };
		if (ports[k].flow == CG_OUT_SUM)
			*(struct ref_in *)(void *)((char *)&ref + l->old) = (struct ref_in){ .d = args[k].d };
	}
	if (r->is_grad)
		save(r, &ref, args, ports);
	for (int k = 0; ports[k].name; k++)
		if (ports[k].flow != CG_IN)
			*(struct ref_out *)(void *)((char *)&ref + link_of(r, ports[k].name)->out) =
				(struct ref_out){ args[k].v, args[k].e };
	assert_int_equal((r->is_grad ? r->family->ref_grad : r->family->ref_forward)(&ref), 0);

	/* What is not needed is not there. */
	place(r, &op, args, ports);
	for (int k = 0; ports[k].name; k++)
		if (ports[k].flow == CG_IN && !optional(&ports[k]) && !cg_op_needs(r->op, &ports[k], &op))
			args[k].given = 0;
	collect(r, args, ports);
	assert_int_equal(r->op->work(&op, &work), CG_OK);
	scratch = take(work + 8, 1);
	memset(scratch, POISON, work + 8);
	for (int again = 0; again < 2 && !wrong; again++) {
		place(r, &op, args, ports);
		if (again)
			*mem_at(&op, &(struct cg_port){ .at = r->op->work_at }) = (struct cg_mem){ scratch, UNSET, work + 8, CG_HOST };
		if (r->op->call(stream, &op)) {
			print_message("# %s\n", cg_message());
			wrong = 1;
		}
		assert_int_equal(cg_stream_sync(stream), CG_OK);
		collect(r, args, ports);
		wrong = wrong || judge(r, args, ports);
		for (int k = 0; ports[k].name && !wrong; k++) {
			if (!again) {
				first[k] = take(args[k].bytes, 1);
				memcpy(first[k], args[k].memory + GUARD, args[k].bytes);
			} else if (memcmp(first[k], args[k].memory + GUARD, args[k].bytes)) {
				print_message("# %s: other bits the second time\n", ports[k].name);
				wrong = 1;
			}
		}
	}
	if (wrong)
		say(r);
	free(scratch);
	for (int k = 0; ports[k].name; k++) {
		free(first[k]);
		free(args[k].d);
		free(args[k].memory);
		free(args[k].before);
		free(args[k].v);
		free(args[k].e);
	}
	assert_false(wrong);
}

/* ---- the cases of one op and dtype ---- */

struct plan { const struct family *family; int is_grad, dtype; };

static struct request request(const struct plan *p)
{
	static unsigned long count;

	return (struct request){ .family = p->family, .op = cg_op_find(p->is_grad ? p->family->grad : p->family->forward, NULL),
	                         .is_grad = p->is_grad, .dtype = p->dtype, .scale = 1, .seed = seed_of_run + 7919 * ++count };
}

static void test_sizes(void **given)
{
	const struct plan *p = *given;
	int lstm = p->family == &families[0];
	size_t n = sizeof sizes / sizeof *sizes;

	worst = 0;
	for (size_t s = 0; s < n + sizeof large / sizeof *large; s++)
		for (int variant = 0; variant < (lstm ? 12 : 6); variant++) {
			struct request r = request(p);

			r.size = s < n ? sizes[s] : large[s - n];
			/* The reference takes its time. */
			if (variant > 0 && r.size.B * (r.size.I + r.size.U) * r.size.U > (variant < 3 ? 500000 : 20000))
				continue;
			r.peephole = lstm && variant % 2;
			r.gates = lstm && variant / 2 % 2;
			r.accumulate = (variant + (int)s) % 3 == 0;
			r.scalar = variant / 2 % 3;
			r.scale = scales[(variant / 3 + s) % 3];
			r.device = variant % 5 == 4;
			run(&r);
		}
	print_message("# %s %s: largest error over its tolerance %.3Lf\n", p->is_grad ? p->family->grad : p->family->forward,
	              cg_dtype_name(p->dtype), worst);
	assert_true(worst > 0.01L);
}

static void test_absent(void **given)
{
	const struct plan *p = *given;
	struct request r = request(p);
	int bits = 0;

	for (const struct cg_port *port = r.op->ports; port->name; port++)
		bits += optional(port);
	for (unsigned absent = 0; absent < 1u << bits; absent++) {
		r = request(p);
		r.size = small;
		r.absent = absent;
		r.peephole = p->family == &families[0] && (absent ^ absent >> 3) & 1;
		r.accumulate = absent >> 1 & 1;
		run(&r);
	}
}

static int open_all(void **unused)
{
	(void)unused;
	if (cg_open(NULL, &context) || cg_stream_open(context, NULL, &stream)) {
		print_message("# %s\n", cg_message());
		return -1;
	}
	print_message("# %s; seed %lu\n", cg_describe(context), seed_of_run);
	return 0;
}

static int close_all(void **unused)
{
	(void)unused;
	cg_close(context);
	cg_stream_close(stream);
	return 0;
}

/* Does the backend open?  Says why not. */
static int opens(void)
{
	if (cg_open(NULL, &context))
		return puts(cg_message()), 1;
	cg_close(context);
	return 0;
}

int main(int argc, char **argv)
{
	enum { TESTS = 2 * 2 * 4 * 2 };
	static struct plan plans[TESTS];
	static char names[TESTS][80];
	struct CMUnitTest tests[TESTS];
	int n = 0;

	if (argc > 1 && !strcmp(argv[1], "--opens"))
		return opens();
	if (getenv("CELLGRAD_TEST_SEED"))
		seed_of_run = strtoul(getenv("CELLGRAD_TEST_SEED"), NULL, 10);
	for (int f = 0; f < 2; f++)
		for (int is_grad = 0; is_grad < 2; is_grad++)
			for (int dtype = CG_F32; dtype <= CG_BF16; dtype++)
				for (int absent = 0; absent < 2; absent++) {
					plans[n] = (struct plan){ &families[f], is_grad, dtype };
					snprintf(names[n], sizeof names[n], "%s %s: %s", is_grad ? families[f].grad : families[f].forward,
					         cg_dtype_name(dtype), absent ? "every subset of what may be absent" : "sizes and options");
					tests[n] = (struct CMUnitTest){ names[n], absent ? test_absent : test_sizes, NULL, NULL, &plans[n] };
					n++;
				}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("conformance", tests, open_all, close_all);
}
