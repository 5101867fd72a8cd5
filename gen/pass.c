/*
 * Which functions a pass of a cell needs: for each, what it takes and gives and which nodes it computes.  Stages are cut by
 * products, so a pass runs stage by stage: forward 1 to S, grad S to 1, gradgrad up (each stage's gd<feed>, which a product
 * carries into the next stage's gda) and down again.  As a step of a sequence a pass runs the same; what differs is what comes
 * from the steps beside it.  How the functions are spelled is print.c's business.
 */
#include "cell.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME(with, code, name, text) #name,
const char *const cg_pass_names[CG_PASS_COUNT] = { CG_PASSES(NAME,) };

/* What memory holds, by role and order: what a product reads is real; what it writes or is added to is acc. */
static const struct { signed char kind, type[4]; } memory[] = {
	[CG_ROLE_GATE]   = { CG_KIND_TENSOR,   { CG_TYPE_ACC,  CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_ACC } },
	[CG_ROLE_PREV]   = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_STATE]  = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_OUTPUT] = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_SAVED]  = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_FEED]   = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_ACC,  CG_TYPE_ACC,  CG_TYPE_REAL } },
	[CG_ROLE_WEIGHT] = { CG_KIND_PER_UNIT, { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_BIAS]   = { CG_KIND_PER_UNIT, { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_PARAM]  = { CG_KIND_SCALAR,   { CG_TYPE_ACC,  CG_TYPE_ACC,  CG_TYPE_ACC,  CG_TYPE_ACC } },
	[CG_ROLE_ROWS]   = { CG_KIND_COUNT,    { CG_TYPE_I64,  CG_TYPE_I64,  CG_TYPE_I64,  CG_TYPE_I64 } },
	[CG_ROLE_UNITS]  = { CG_KIND_COUNT,    { CG_TYPE_I64,  CG_TYPE_I64,  CG_TYPE_I64,  CG_TYPE_I64 } },
	[CG_ROLE_SCRATCH]    = { CG_KIND_SCRATCH, { CG_TYPE_ACC, CG_TYPE_ACC, CG_TYPE_ACC, CG_TYPE_ACC } },
	[CG_ROLE_ACCUMULATE] = { CG_KIND_COUNT,   { CG_TYPE_I64, CG_TYPE_I64, CG_TYPE_I64, CG_TYPE_I64 } },
};

static const char *const prefixes[] = { [CG_VALUE] = "", [CG_D] = "d", [CG_G] = "g", [CG_GD] = "gd" };

enum { ARGUMENTS_MAX = 4 * CG_VALUES_MAX };

/* A value that is in memory when a piece runs: where its node stands the piece loads it. */
struct cut { const char *name; int role, index, order; };

struct maker {
	struct cg_pass_plan *plan;
	struct cg_graph *graph;
	struct cut *cuts;                         /* by node; name NULL: none */
	int n_cuts;
	struct cg_argument outs[ARGUMENTS_MAX];
	int n_outs;
	int failed;
};

static const char *own_name(const struct cg_cell *cell, int role, int index)
{
	switch (role) {
	case CG_ROLE_GATE:   return cell->gates[index].name;
	case CG_ROLE_PREV:   return cell->prevs[index].name;
	case CG_ROLE_STATE:  return cell->values[cell->prevs[index].value].name;
	case CG_ROLE_OUTPUT: return cell->values[cell->prevs[index].value].name;
	case CG_ROLE_SAVED:  return cell->values[cell->saves[index]].name;
	case CG_ROLE_FEED:   return cell->values[cell->feeds[index]].name;
	case CG_ROLE_WEIGHT: return cell->weights[index].name;
	case CG_ROLE_PARAM:  return cell->params[index].name;
	}
	return cell->gates[index].name;
}

/* "gda_i" of gate a_i; the bias of gate a_i is b_i, the output h, as what takes it from a step sees it, h_out. */
static const char *name_of(struct cg_graph *graph, const struct cg_cell *cell, int role, int index, int order)
{
	const char *own = own_name(cell, role, index), *bias = "", *end = role == CG_ROLE_OUTPUT ? "_out" : "";
	size_t bytes = strlen(own) + 8;
	char *text = cg_arena_take(graph->memory, bytes);

	if (role == CG_ROLE_BIAS) {
		bias = "b_";
		own += strncmp(own, "a_", 2) ? 0 : 2;
	}
	if (!text) {
		graph->failed = 1;
		return "";
	}
	snprintf(text, bytes, "%s%s%s%s", prefixes[order], bias, own, end);
	return text;
}

static int leaf(struct maker *m, int role, int index, int order)
{
	return cg_leaf(m->graph, name_of(m->graph, m->plan->cell, role, index, order), role, index, order);
}

/* The node of a leaf that the equations use; 0 when they do not. */
static int used_leaf(const struct cg_graph *graph, int role, int index)
{
	for (int k = 1; k < graph->n; k++)
		if (graph->nodes[k].code == CG_OP_LEAF) {
			const struct cg_leaf *l = &graph->leaves[graph->nodes[k].a];

			if (l->role == role && l->index == index && l->order == CG_VALUE)
				return k;
		}
	return 0;
}

/* Is it carried from step to step?  h is rounded at each: what is carried of it is its adjoint alone. */
static int is_carried(const struct cg_cell *cell, int role, int index, int order)
{
	if (role == CG_ROLE_SAVED)
		for (int k = 0; k < cell->n_prevs; k++)
			if (cell->prevs[k].value == cell->saves[index] && !cell->prevs[k].output)
				return 1;
	return (role == CG_ROLE_PREV || role == CG_ROLE_STATE) && (order != CG_VALUE || !cell->prevs[index].output);
}

static int type_of(const struct cg_pass_plan *plan, int role, int index, int order)
{
	/* The caller adds a product to what reaches h_prev, and only then rounds. */
	if (role == CG_ROLE_PREV && plan->cell->prevs[index].output && (order == CG_D || order == CG_G))
		return CG_TYPE_ACC;
	if (plan->pass >= CG_PASS_SEQ_FORWARD && is_carried(plan->cell, role, index, order))
		return CG_TYPE_ACC;
	return memory[role].type[order];
}

static struct cg_argument argument(struct maker *m, int role, int index, int order, int node)
{
	struct cg_argument a = { "", role, index, order, memory[role].kind, 0, 0, node };

	a.type = type_of(m->plan, role, index, order);
	a.name = role < CG_ROLE_ROWS ? name_of(m->graph, m->plan->cell, role, index, order) : "";
	return a;
}

static void out(struct maker *m, int role, int index, int order, int node)
{
	struct cg_argument *a = &m->outs[m->n_outs];

	if (m->n_outs == ARGUMENTS_MAX) {
		m->failed = 1;
		return;
	}
	*a = argument(m, role, index, order, node);
	a->out = 1;
	m->n_outs++;
}

static void cut(struct maker *m, int node, int role, int index, int order)
{
	if (node && !m->cuts[node].name && m->graph->nodes[node].code != CG_OP_CONST) {
		m->cuts[node] = (struct cut){ name_of(m->graph, m->plan->cell, role, index, order), role, index, order };
		m->n_cuts++;
	}
}

static void cut_nothing(struct maker *m)
{
	memset(m->cuts, 0, (size_t)m->graph->n * sizeof *m->cuts);
	m->n_cuts = 0;
}

static void cut_saved(struct maker *m)
{
	cut_nothing(m);
	for (int k = 0; k < m->plan->cell->n_saves; k++)
		cut(m, m->graph->value[m->plan->cell->saves[k]], CG_ROLE_SAVED, k, CG_VALUE);
}

/* Is the node a saved value, in the type that products read?  A state that a sequence carries is saved in acc. */
static int is_saved_real(const struct maker *m, int node)
{
	const struct cut *c = &m->cuts[node];

	return c->name && type_of(m->plan, c->role, c->index, c->order) == CG_TYPE_REAL;
}

/* By role, then order, then index: the order in which a piece takes its inputs. */
static int before(const struct cg_argument *a, const struct cg_argument *b)
{
	if (a->role != b->role)
		return a->role < b->role;
	if (a->order != b->order)
		return a->order < b->order;
	return a->index < b->index;
}

/* "cg_lstm_block_peephole_f32_grad"; the stage is named where a cell has several and this is one of them. */
static int name_key(const struct cg_pass_plan *plan, char key[CG_KEY_MAX], int stage, const char *suffix)
{
	const struct cg_cell *cell = plan->cell;
	int n = snprintf(key, CG_KEY_MAX, "cg_%s", cell->name);

	for (int k = 0; k < cell->n_options; k++)
		if (plan->options >> k & 1 && n < CG_KEY_MAX)
			n += snprintf(key + n, CG_KEY_MAX - (size_t)n, "_%s", cell->options[k].name);
	if (cell->n_stages > 1 && stage && n < CG_KEY_MAX)
		n += snprintf(key + n, CG_KEY_MAX - (size_t)n, "_s%d", stage);
	if (n < CG_KEY_MAX)
		n += snprintf(key + n, CG_KEY_MAX - (size_t)n, "_%s_%s%s", cg_real_names[plan->dtype], cg_pass_names[plan->pass],
		              suffix);
	return n < CG_KEY_MAX ? 0 : -1;
}

/* Makes a piece that computes the outputs gathered so far from what is in memory, and forgets them. */
static void piece(struct maker *m, int stage, int shape, const char *suffix)
{
	struct cg_pass_plan *plan = m->plan;
	struct cg_graph *graph = m->graph;
	struct cg_piece *p = &plan->pieces[plan->n_pieces];
	struct cg_argument *list = cg_arena_take(&plan->memory, (size_t)(graph->n_leaves + m->n_cuts + m->n_outs + 4) *
	                                         sizeof *list);
	int *schedule = cg_arena_take(&plan->memory, (size_t)graph->n * sizeof *schedule);
	unsigned char *wanted = cg_arena_take(&plan->memory, (size_t)graph->n);
	int n = 0, inputs, scalars = 0;

	if (graph->failed || !list || !schedule || !wanted || plan->n_pieces == CG_PIECES_MAX) {
		m->failed = 1;
		return;
	}
	memset(p, 0, sizeof *p);
	p->stage = stage;
	p->shape = shape;
	if (name_key(plan, p->key, stage, suffix)) {
		m->failed = 1;
		return;
	}

	n = 0;
	list[n++] = argument(m, CG_ROLE_ROWS, 0, 0, 0);
	list[n++] = argument(m, CG_ROLE_UNITS, 0, 0, 0);
	list[0].name = "rows";
	list[1].name = "units";
	inputs = n;
	if (shape != CG_PIECE_SUM) {
		for (int k = 0; k < m->n_outs; k++)
			wanted[m->outs[k].node] = 1;
		for (int k = graph->n - 1; k > 0; k--) {
			const struct cg_node *node = &graph->nodes[k];
			struct cg_argument a;

			if (!wanted[k] || node->code == CG_OP_CONST)
				continue;
			if (m->cuts[k].name) {
				a = argument(m, m->cuts[k].role, m->cuts[k].index, m->cuts[k].order, k);
			} else if (node->code == CG_OP_LEAF) {
				const struct cg_leaf *l = &graph->leaves[node->a];

				a = argument(m, l->role, l->index, l->order, k);
			} else {
				wanted[node->a] = wanted[node->b] = 1;
				continue;
			}
			wanted[k] = 2;
			scalars += a.kind == CG_KIND_SCALAR;
			for (inputs = n++; inputs > 2 && before(&a, &list[inputs - 1]); inputs--)
				list[inputs] = list[inputs - 1];
			list[inputs] = a;
		}
		for (int k = 1; k < graph->n; k++)
			if (wanted[k] == 1 && graph->nodes[k].code != CG_OP_CONST)
				schedule[p->n_schedule++] = k;
	}
	if (shape == CG_PIECE_POINT) {
		/* The params, last of all inputs by their role, come after the outputs. */
		memmove(list + n - scalars + m->n_outs, list + n - scalars, (size_t)scalars * sizeof *list);
		memcpy(list + n - scalars, m->outs, (size_t)m->n_outs * sizeof *list);
		n += m->n_outs;
	} else {
		list[n] = argument(m, CG_ROLE_SCRATCH, 0, 0, 0);
		list[n].name = "partial";
		list[n++].out = shape == CG_PIECE_SUM_PART;
		/* A part computes the outputs' terms but stores them in scratch; the sum stores the outputs. */
		memcpy(list + n, m->outs, (size_t)m->n_outs * sizeof *list);
		n += m->n_outs;
		if (shape == CG_PIECE_SUM) {
			list[n] = argument(m, CG_ROLE_ACCUMULATE, 0, 0, 0);
			list[n++].name = "accumulate";
		}
	}
	p->arguments = list;
	p->n_arguments = n;
	p->schedule = schedule;
	plan->n_pieces++;
	if (shape != CG_PIECE_SUM_PART)
		m->n_outs = 0;
	m->failed |= graph->failed;
}

static int wants(const struct maker *m, int stage)
{
	return !m->plan->stage || m->plan->stage == stage;
}

static void forward(struct maker *m, int stage)
{
	const struct cg_cell *cell = m->plan->cell;
	const int *value = m->graph->value;

	cut_nothing(m);
	for (int k = 0; k < cell->n_saves; k++) {
		int v = cell->saves[k];

		if (cell->values[v].stage == stage)
			out(m, CG_ROLE_SAVED, k, CG_VALUE, value[v]);
		else if (cell->values[v].stage < stage)
			cut(m, value[v], CG_ROLE_SAVED, k, CG_VALUE);
	}
	for (int role = CG_ROLE_STATE; role <= CG_ROLE_FEED; role += CG_ROLE_FEED - CG_ROLE_STATE)
		for (int k = 0; k < (role == CG_ROLE_STATE ? cell->n_prevs : cell->n_stages - 1); k++) {
			int v = role == CG_ROLE_STATE ? cell->prevs[k].value : cell->feeds[k], kept = 0;

			for (int j = 0; j < cell->n_saves; j++)
				kept |= cell->saves[j] == v;
			if (!kept && cell->values[v].stage == stage)
				out(m, role, k, CG_VALUE, value[v]);
			else if (!kept && cell->values[v].stage < stage && role == CG_ROLE_FEED)
				cut(m, value[v], role, k, CG_VALUE);
		}
	piece(m, stage, CG_PIECE_POINT, "");
}

/* The sums of a stage of a gradient: biases of its gates, and, last of all, per-unit weights. */
static void sums(struct maker *m, int stage, int order, const int *adjoint, int n)
{
	const struct cg_cell *cell = m->plan->cell;

	cut_saved(m);
	for (int k = 0; k < cell->n_gates; k++) {
		int gate = used_leaf(m->graph, CG_ROLE_GATE, k), node = gate && gate < n ? adjoint[gate] : 0;

		if (cell->gates[k].stage >= stage)
			cut(m, node, CG_ROLE_GATE, k, order);
		if (cell->gates[k].stage == stage)
			out(m, CG_ROLE_BIAS, k, order, node);
	}
	for (int k = 0; stage == 1 && k < cell->n_weights; k++) {
		int weight = used_leaf(m->graph, CG_ROLE_WEIGHT, k);

		if (weight)
			out(m, CG_ROLE_WEIGHT, k, order, weight < n ? adjoint[weight] : 0);
	}
	piece(m, stage, CG_PIECE_SUM_PART, "_sum_part");
	piece(m, stage, CG_PIECE_SUM, "_sum");
}

/* What a stage of grad or gradgrad gives of adjoints of gates and, in the first stage, of what was before the step. */
static void adjoints_out(struct maker *m, int stage, int order, const int *adjoint, int n)
{
	const struct cg_cell *cell = m->plan->cell;

	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].stage == stage) {
			int gate = used_leaf(m->graph, CG_ROLE_GATE, k);

			out(m, CG_ROLE_GATE, k, order, gate && gate < n ? adjoint[gate] : 0);
		}
	for (int k = 0; stage == 1 && k < cell->n_prevs; k++) {
		int prev = used_leaf(m->graph, CG_ROLE_PREV, k);

		/* The step before reads what reaches its state even where this step does not read that state: zero, then. */
		if (prev || (m->plan->pass == CG_PASS_SEQ_GRAD && !cell->prevs[k].output))
			out(m, CG_ROLE_PREV, k, order, prev < n ? adjoint[prev] : 0);
	}
}

static int *adjoints(struct maker *m, int n)
{
	int *adjoint = cg_arena_take(&m->plan->memory, (size_t)n * sizeof *adjoint);

	m->failed |= !adjoint;
	return adjoint;
}

static void seed(struct maker *m, int *adjoint, int node, int role, int index, int order)
{
	if (m->graph->nodes[node].code != CG_OP_CONST)
		adjoint[node] = cg_add(m->graph, adjoint[node], leaf(m, role, index, order));
}

static int *derive_once(struct maker *m)
{
	const struct cg_cell *cell = m->plan->cell;
	struct cg_graph *graph = m->graph;
	int n = graph->n, *d = adjoints(m, n);

	if (!d)
		return NULL;
	for (int k = 0; k < cell->n_prevs; k++) {
		int value = graph->value[cell->prevs[k].value];

		seed(m, d, value, CG_ROLE_STATE, k, CG_D);
		if (m->plan->pass == CG_PASS_SEQ_GRAD && cell->prevs[k].output) {
			graph->origin = cell->prevs[k].value;
			seed(m, d, value, CG_ROLE_OUTPUT, k, CG_D);
			graph->origin = -1;
		}
	}
	for (int s = 0; s < cell->n_stages - 1; s++)
		seed(m, d, graph->value[cell->feeds[s]], CG_ROLE_FEED, s, CG_D);
	cg_derive(graph, d, n, "d");
	return d;
}

static int *derive_twice(struct maker *m, const int *d, int n)
{
	static const int roles[] = { CG_ROLE_GATE, CG_ROLE_PREV, CG_ROLE_WEIGHT };
	const struct cg_cell *cell = m->plan->cell;
	const int counts[] = { cell->n_gates, cell->n_prevs, cell->n_weights };
	struct cg_graph *graph = m->graph;
	int n2 = graph->n, *g = adjoints(m, n2);

	if (!g)
		return NULL;
	for (int r = 0; r < 3; r++)
		for (int k = 0; k < counts[r]; k++) {
			int of = used_leaf(graph, roles[r], k);

			if (of && of < n)
				seed(m, g, d[of], roles[r], k, CG_GD);
		}
	for (int s = 0; s < cell->n_stages - 1; s++)
		seed(m, g, graph->value[cell->feeds[s]], CG_ROLE_FEED, s, CG_G);
	cg_derive(graph, g, n2, "g");
	return g;
}

/* The adjoint of an upstream adjoint: gdh of dh. */
static void upstream_out(struct maker *m, int role, int index, const int *g, int n)
{
	int node = leaf(m, role, index, CG_D);

	out(m, role, index, CG_GD, node < n ? g[node] : 0);
}

static void pieces(struct maker *m)
{
	const struct cg_cell *cell = m->plan->cell;
	struct cg_graph *graph = m->graph;
	int n = graph->n, n2 = 0, *d = NULL, *g = NULL;

	if (m->plan->pass != CG_PASS_FORWARD && m->plan->pass != CG_PASS_SEQ_FORWARD)
		d = derive_once(m);
	if (m->plan->pass == CG_PASS_GRADGRAD && d) {
		n2 = graph->n;
		g = derive_twice(m, d, n);
	}
	if (m->failed || graph->failed)
		return;
	m->cuts = cg_arena_take(&m->plan->memory, ((size_t)graph->room + 64) * sizeof *m->cuts);
	m->plan->pieces = cg_arena_take(&m->plan->memory, CG_PIECES_MAX * sizeof *m->plan->pieces);
	if (!m->cuts || !m->plan->pieces) {
		m->failed = 1;
		return;
	}
	switch (m->plan->pass) {
	case CG_PASS_FORWARD:
	case CG_PASS_SEQ_FORWARD:
		for (int s = 1; s <= cell->n_stages; s++)
			if (wants(m, s))
				forward(m, s);
		return;
	case CG_PASS_GRAD:
	case CG_PASS_SEQ_GRAD:
		for (int s = cell->n_stages; s >= 1; s--) {
			if (!wants(m, s))
				continue;
			cut_saved(m);
			/* The gradient of the product's weights multiplies by the feed again. */
			if (s < cell->n_stages && !is_saved_real(m, graph->value[cell->feeds[s - 1]]))
				out(m, CG_ROLE_FEED, s - 1, CG_VALUE, graph->value[cell->feeds[s - 1]]);
			adjoints_out(m, s, CG_D, d, n);
			piece(m, s, CG_PIECE_POINT, "");
			sums(m, s, CG_D, d, n);
		}
		return;
	case CG_PASS_GRADGRAD:
		for (int s = 1; s < cell->n_stages; s++)
			if (wants(m, s)) {
				cut_saved(m);
				upstream_out(m, CG_ROLE_FEED, s - 1, g, n2);
				piece(m, s, CG_PIECE_POINT, "_feed");
			}
		for (int s = cell->n_stages; s >= 1; s--) {
			if (!wants(m, s))
				continue;
			cut_saved(m);
			for (int k = 0; s == cell->n_stages && k < cell->n_prevs; k++)
				upstream_out(m, CG_ROLE_STATE, k, g, n2);
			adjoints_out(m, s, CG_G, g, n2);
			piece(m, s, CG_PIECE_POINT, "");
			sums(m, s, CG_G, g, n2);
		}
	}
}

/* An equation with a constant that arithmetic cannot hold, such as 1 / 0, itself or its derivative; -1 when there is none. */
static int endless(const struct cg_pass_plan *plan)
{
	const struct cg_graph *graph = &plan->graph;
	int narrow = cg_dtypes[plan->dtype].acc != CG_DTYPE_F64;

	for (int k = 1; k < graph->n; k++) {
		const struct cg_node *n = &graph->nodes[k];

		if (n->code == CG_OP_CONST && n->origin >= 0 && !isfinite(narrow ? (double)(float)n->value : (double)n->value))
			return n->origin;
	}
	return -1;
}

struct cg_pass_plan *cg_plan(const struct cg_cell *cell, int options, int pass, int stage, int dtype, cg_resize *resize,
                             struct cg_mistake *mistake)
{
	struct cg_pass_plan *plan = resize(NULL, sizeof *plan);
	struct maker *m = resize(NULL, sizeof *m);
	int wrong = -1;

	mistake->text[0] = 0;
	if (plan && m) {
		memset(plan, 0, sizeof *plan);
		memset(m, 0, sizeof *m);
		plan->cell = cell;
		plan->options = options;
		plan->pass = pass;
		plan->stage = stage;
		plan->dtype = dtype;
		plan->memory.resize = resize;
		m->failed = name_key(plan, plan->key, stage, "");
		m->plan = plan;
		m->graph = &plan->graph;
		cg_graph_open(m->graph, &plan->memory);
		cg_graph_build(m->graph, cell, options);
		wrong = m->graph->failed ? -1 : endless(plan);
		if (wrong >= 0)
			m->failed = 1;
		else if (!m->graph->failed)
			pieces(m);
		/* Derivatives add factors up. */
		if (wrong < 0 && !m->graph->failed && (wrong = endless(plan)) >= 0)
			m->failed = 1;
		if (!m->failed && !m->graph->failed && !plan->memory.failed) {
			resize(m, 0);
			return plan;
		}
		if (wrong >= 0)
			snprintf(mistake->text, sizeof mistake->text, "cell %s: a constant of '%s' is not a number of %s", cell->name,
			         cell->values[wrong].line, cg_real_names[cg_dtypes[dtype].acc]);
		else if (!plan->memory.failed)
			snprintf(mistake->text, sizeof mistake->text, "cell %s: its %s has more than %d nodes", cell->name,
			         cg_pass_names[pass], CG_NODES_MAX);
		cg_arena_free(&plan->memory);
	}
	if (m)
		resize(m, 0);
	if (plan)
		resize(plan, 0);
	return NULL;
}

static int has_feed(const struct cg_pass_plan *plan, int feed)
{
	for (int p = 0; p < plan->n_pieces; p++)
		for (int k = 0; k < plan->pieces[p].n_arguments; k++) {
			const struct cg_argument *a = &plan->pieces[p].arguments[k];

			if (a->role == CG_ROLE_FEED && a->index == feed && a->order == CG_VALUE)
				return 1;
		}
	return 0;
}

int cg_feed_saved(const struct cg_pass_plan *plan, int feed)
{
	const struct cg_cell *cell = plan->cell;
	const int *value = plan->graph.value;

	if (has_feed(plan, feed))
		return -1;
	for (int k = 0; k < cell->n_saves; k++)
		if (cell->saves[k] == cell->feeds[feed])
			return k;
	for (int k = 0; k < cell->n_saves; k++)
		if (value[cell->saves[k]] == value[cell->feeds[feed]] && type_of(plan, CG_ROLE_SAVED, k, CG_VALUE) == CG_TYPE_REAL)
			return k;
	return -1;
}

void cg_plan_free(struct cg_pass_plan *plan)
{
	if (plan) {
		cg_resize *resize = plan->memory.resize;

		cg_arena_free(&plan->memory);
		resize(plan, 0);
	}
}
