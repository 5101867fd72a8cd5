/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of ops. The arguments come from the op table, the answers and the tolerance from the reference. To add an op to the trials, add
 * a table that links the op's ports to members of the reference's struct, and a row to `families`.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/core/core.h"
#include "verify/answer.h"
#include "verify/numbers.h"
#include "verify/promise.h"
#include "verify/sequence.h"
#include "verify/trial.h"

enum { PORTS = 32 };

/* The struct of a reference. The struct for a sequence begins with that of its cell. */
union trial_ref { struct ref_lstm_block lstm; struct ref_block_lstm sequence; struct ref_gru_block gru; };

/* The members of the reference's struct that a port corresponds to: as an input, as an output, and as the old value that accumulate
 * adds to. */
struct link { const char *port; size_t in, out, old; };

#define L(field) offsetof(struct ref_lstm_block, field)
#define G(field) offsetof(struct ref_gru_block, field)
static const struct link lstm_links[] = {
	{ "x", L(x), 0, 0 }, { "cs_prev", L(cs_prev), 0, 0 }, { "h_prev", L(h_prev), 0, 0 }, { "w", L(w), 0, 0 },
	{ "wci", L(wci), 0, 0 }, { "wcf", L(wcf), 0, 0 }, { "wco", L(wco), 0, 0 }, { "b", L(b), 0, 0 },
	{ "i", L(i), L(i_out), 0 }, { "cs", L(cs), L(cs_out), 0 }, { "f", L(f), L(f_out), 0 }, { "o", L(o), L(o_out), 0 },
	{ "ci", L(ci), L(ci_out), 0 }, { "co", L(co), L(co_out), 0 }, { "h", offsetof(struct ref_block_lstm, h), L(h_out), 0 },
	{ "cs_grad", L(cs_grad), 0, 0 }, { "h_grad", L(h_grad), 0, 0 }, { "x_grad", 0, L(x_grad), 0 },
	{ "cs_prev_grad", 0, L(cs_prev_grad), 0 }, { "h_prev_grad", 0, L(h_prev_grad), 0 }, { "dicfo", 0, L(dgates), 0 },
	{ "dgates", 0, L(dgates), 0 },
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

static void lstm_set(const union trial_op *op, union trial_ref *ref)
{
	const struct cg_lstm_block *l = &op->lstm;

	ref->lstm = (struct ref_lstm_block){ .B = l->B, .I = l->I, .U = l->U, .dtype = l->dtype, .gates = l->gates,
	                                     .use_peephole = l->use_peephole, .accumulate = l->accumulate,
	                                     .forget_bias = l->forget_bias, .cell_clip = l->cell_clip };
}

static void sequence_set(const union trial_op *op, union trial_ref *ref)
{
	const struct cg_lstm_block *l = &op->lstm;

	lstm_set(op, ref);
	ref->sequence = (struct ref_block_lstm){ .cell = ref->lstm, .T = l->T,
	                                         .seq_len_max = l->seq_len_max < 0 ? l->T : l->seq_len_max };
}

static void gru_set(const union trial_op *op, union trial_ref *ref)
{
	const struct cg_gru_block *g = &op->gru;

	ref->gru = (struct ref_gru_block){ .B = g->B, .I = g->I, .U = g->U, .dtype = g->dtype, .accumulate = g->accumulate };
}

static int lstm_forward(const void *p) { return ref_lstm_block_forward(p); }
static int lstm_grad(const void *p)    { return ref_lstm_block_grad(p); }
static int sequence_forward(const void *p) { return ref_block_lstm_forward(p); }
static int sequence_grad(const void *p)    { return ref_block_lstm_grad(p); }
static int gru_forward(const void *p)  { return ref_gru_block_forward(p); }
static int gru_grad(const void *p)     { return ref_gru_block_grad(p); }

static const struct family {
	const char *forward, *grad;
	const struct link *links;
	void (*set)(const union trial_op *, union trial_ref *);
	int (*ref_forward)(const void *), (*ref_grad)(const void *);
} families[] = {
	{ "lstm_block_cell", "lstm_block_cell_grad", lstm_links, lstm_set, lstm_forward, lstm_grad },
	{ "gru_block_cell", "gru_block_cell_grad", gru_links, gru_set, gru_forward, gru_grad },
	{ "block_lstm", "block_lstm_grad", lstm_links, sequence_set, sequence_forward, sequence_grad },
	{ "block_lstm_v2", "block_lstm_grad_v2", lstm_links, sequence_set, sequence_forward, sequence_grad },
	{ .forward = NULL }
};

static const struct family *family_of(const struct cg_op *op)
{
	const struct family *f = families;

	while (f->forward && strcmp(f->forward, op->name) && strcmp(f->grad, op->name))
		f++;
	return f->forward ? f : NULL;
}

int trial_has_reference(const struct cg_op *op)
{
	return family_of(op) != NULL;
}

static int is_grad(const struct cg_op *op)
{
	return !strcmp(family_of(op)->grad, op->name);
}

static const struct link *link_of(const struct family *f, const char *port)
{
	const struct link *l = f->links;

	while (l->port && strcmp(l->port, port))
		l++;
	return l;
}

static void *member(void *of, size_t at)
{
	return (char *)of + at;
}

/* ---- one run ---- */

struct trial_state {
	const struct trial *trial;
	const struct family *family;
	union trial_op op;
	int dtype;
	struct answer args[PORTS];
	struct area work;
	struct finding *finding;
};

static struct cg_mem *mem_at(struct trial_state *r, const struct cg_port *port)
{
	return member(&r->op, port->at);
}

static int fill(struct trial_state *r, const struct cg_port *port, struct answer *a, unsigned long long *state)
{
	double scale = r->trial->scale;
	size_t bytes;

	CG_TRY(cg_op_bytes(r->trial->op, port, &r->op, &bytes));
	CG_TRY(answer_open(a, port->name, r->dtype, bytes / cg_dtype_bytes(r->dtype), numbers_below(state, 3)));
	a->is_out = port->flow != CG_IN;
	/* Weights are drawn small: sums over many terms of order 1 would saturate every gate. */
	if (!strncmp(port->shape, "I+U", 3))
		scale /= sqrt((double)(trial_size(r->trial, "I") + trial_size(r->trial, "U")));
	answer_draw(a, state, scale);
	return CG_OK;
}

static void set_in(union trial_ref *ref, size_t at, struct ref_in in)
{
	memcpy(member(ref, at), &in, sizeof in);
}

static void set_out(union trial_ref *ref, size_t at, const struct answer *a)
{
	struct ref_out out = { a->v, a->e };

	memcpy(member(ref, at), &out, sizeof out);
}

/* Computes, by the reference's forward pass, the saved values that the gradient reads. */
static int save(struct trial_state *r, const union trial_ref *ref)
{
	const struct cg_port *ports = r->trial->op->ports;
	union trial_ref forward = *ref;

	for (int k = 0; ports[k].name; k++)
		if (ports[k].flow == CG_IN && link_of(r->family, ports[k].name)->out)
			set_out(&forward, link_of(r->family, ports[k].name)->out, &r->args[k]);
	if (r->family->ref_forward(&forward))
		return cg_fail(CG_NO_MEMORY, "no memory to compute the reference answer");
	for (int k = 0; ports[k].name; k++)
		for (size_t j = 0; ports[k].flow == CG_IN && link_of(r->family, ports[k].name)->out && j < r->args[k].n; j++)
			r->args[k].d[j] = ref_round(r->dtype, (double)r->args[k].v[j]);
	return CG_OK;
}

/* The number of elements that the op reads of an input; of a sequence it reads only those of the computed steps. */
static size_t read_of(const struct trial_state *r, const struct cg_port *port, size_t n)
{
	int64_t T = trial_size(r->trial, "T"), length = r->op.lstm.seq_len_max;

	if (strncmp(port->shape, "T ", 2) || length < 0 || !T)
		return n;
	return n / (size_t)T * (size_t)length;
}

/* Draws the random numbers of all arguments and computes the reference's answers. */
static int ask(struct trial_state *r)
{
	const struct trial *t = r->trial;
	const struct cg_port *ports = t->op->ports;
	unsigned long long state = t->seed;
	union trial_ref ref;
	int bit = 0;

	memset(&ref, 0, sizeof ref);
	r->family->set(&r->op, &ref);
	for (int k = 0; ports[k].name; k++) {
		const struct link *l = link_of(r->family, ports[k].name);
		struct answer *a = &r->args[k];

		if (!l->port)
			return cg_fail(CG_UNSUPPORTED, "%s: the reference of this op has no argument %s", t->op->name, ports[k].name);
		CG_TRY(fill(r, &ports[k], a, &state));
		a->given = !(trial_optional(t->op, &ports[k]) && t->absent >> bit++ & 1);
		if (ports[k].flow == CG_IN && a->given)
			set_in(&ref, l->in, (struct ref_in){ .d = a->d });
		if (ports[k].flow == CG_OUT_SUM)
			set_in(&ref, l->old, (struct ref_in){ .d = a->d });
	}
	if (is_grad(t->op))
		CG_TRY(save(r, &ref));
	for (int k = 0; ports[k].name; k++) {
		struct answer *a = &r->args[k];

		if (ports[k].flow != CG_IN)
			set_out(&ref, link_of(r->family, ports[k].name)->out, a);
		for (size_t j = read_of(r, &ports[k], a->n); ports[k].flow == CG_IN && j < a->n; j++)
			a->d[j] = NAN;
	}
	if ((is_grad(t->op) ? r->family->ref_grad : r->family->ref_forward)(&ref))
		return cg_fail(CG_NO_MEMORY, "no memory to compute the reference answer");
	return CG_OK;
}

/* Writes the memory that a call gets: the inputs, and the old values of outputs to which the call adds. All other outputs stay poisoned. */
static void encode_inputs(struct trial_state *r)
{
	const struct cg_op *op = r->trial->op;
	int adds = *(int *)member(&r->op, op->accumulate_at);

	for (int k = 0; op->ports[k].name; k++)
		if (op->ports[k].flow == CG_IN || (adds && op->ports[k].flow == CG_OUT_SUM))
			answer_encode(&r->args[k]);
}

/* Leaves out, in half of the cases, the inputs that the call does not read. */
static void leave_out(struct trial_state *r)
{
	const struct cg_op *op = r->trial->op;

	for (int k = 0; op->ports[k].name; k++)
		if (r->args[k].given && op->ports[k].flow != CG_IN)
			*mem_at(r, &op->ports[k]) = (struct cg_mem){ r->args[k].area.host, 0, r->args[k].area.bytes, CG_HOST };
	for (int k = 0; op->ports[k].name && r->trial->seed % 2; k++)
		if (op->ports[k].flow == CG_IN && !trial_optional(op, &op->ports[k]) && !cg_op_needs(op, &op->ports[k], &r->op))
			r->args[k].given = 0;
}

/* Judges what a call wrote. again: the call is the second one on this side, and its bits must be those of the first call if lies_alike()
 * says so. */
static int look(struct trial_state *r, const struct side *side, int which, int again)
{
	const struct cg_port *ports = r->trial->op->ports;

	if (area_touched(&r->work, 0))
		return finding_format(r->finding, FINDING_TOUCHED, "the call on %s wrote beside its workspace", side->name);
	/* A second call whose bits need not repeat those of the first is judged by its error bounds, as the first was. */
	again = again && lies_alike(side->context, r->trial->memory);
	for (int k = 0; ports[k].name && !r->finding->kind; k++)
		CG_TRY(answer_judge(&r->args[k], side, which, again, r->finding));
	return CG_OK;
}

static int lend(struct trial_state *r, const struct side *side, int again)
{
	const struct trial *t = r->trial;

	for (int k = 0; t->op->ports[k].name; k++) {
		struct cg_mem *mem = mem_at(r, &t->op->ports[k]);

		CG_TRY(area_lend(&r->args[k].area, side, r->args[k].given ? t->memory : AREA_HOST, (unsigned)k, mem));
		if (!r->args[k].given)
			*mem = (struct cg_mem){ 0 };
	}
	/* The second call on a side gets its workspace from the caller, the first one takes the stream's. */
	if (again)
		return area_lend(&r->work, side, t->memory, 0, member(&r->op, t->op->work_at));
	return CG_OK;
}

static int read_back(struct trial_state *r, const struct side *side)
{
	const struct cg_port *ports = r->trial->op->ports;
	int code = area_back(&r->work, side);

	for (int k = 0; ports[k].name; k++) {
		int back = area_back(&r->args[k].area, side);

		code = code ? code : back;
	}
	return code;
}

/* Makes one call of the op and judges what the call wrote. */
static int once(struct trial_state *r, const struct side *side, int which, int again)
{
	int code = lend(r, side, again), back;

	if (!code) {
		code = r->trial->op->call(side->stream, &r->op);
		/* A call with arguments in host memory alone returns only when it is done. */
		if (!code && r->trial->memory != AREA_HOST)
			code = cg_stream_sync(side->stream);
		if (code)
			finding_format(r->finding, FINDING_CALL, "%s: %s", side->name, cg_message());
		code = CG_OK;
	}
	back = read_back(r, side);
	code = code ? code : back;
	*(struct cg_mem *)member(&r->op, r->trial->op->work_at) = (struct cg_mem){ 0 };
	return code || r->finding->kind ? code : look(r, side, which, again);
}

static int compute(struct trial_state *r, const struct side *sides, int n)
{
	size_t work;

	CG_TRY(ask(r));
	encode_inputs(r);
	leave_out(r);
	CG_TRY(r->trial->op->work(&r->op, &work));
	CG_TRY(area_open(&r->work, work, 0));
	for (int k = 0; k < n; k++)
		for (int again = 0; again < 2 && !r->finding->kind; again++)
			CG_TRY(once(r, &sides[k], k, again));
	return CG_OK;
}

int trial_run(const struct trial *t, const struct side *sides, int n, struct finding *finding)
{
	struct trial_state r = { .trial = t, .family = family_of(t->op), .finding = finding };
	int code;

	memset(finding, 0, sizeof *finding);
	if (trial_legal(t))
		return finding_format(finding, FINDING_DECLINED, "%s", cg_message());
	memcpy(&r.op, &t->is, sizeof r.op);
	r.dtype = *(int *)member(&r.op, t->op->dtype_at);
	code = compute(&r, sides, n);
	area_close(&r.work);
	for (int k = 0; k < PORTS; k++)
		answer_close(&r.args[k]);
	return code;
}
