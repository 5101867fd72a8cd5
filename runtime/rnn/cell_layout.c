/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a network's cell: the columns of its gates in the pre-activations and the weights, the values that each step saves, and
 * the values that its kernels read.
 */
#include <string.h>

#include "runtime/rnn/rnn.h"

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "rnn: " __VA_ARGS__)

/* Numbers the gates with weights, and the parts of their weights. */
static int lay_out_gates(struct cg_rnn *rnn)
{
	const struct cg_cell *cell = rnn->net.cell;
	struct cg_network *net = &rnn->net;
	struct cg_mistake mistake;
	int number[CG_GATES_MAX];

	if (cg_check_split(cell, &mistake))
		return cg_fail(CG_UNSUPPORTED, "rnn: %s", mistake.text);
	for (int k = 0; k < cell->n_gates; k++) {
		if (cell->gates[k].whole >= 0)
			continue;
		number[k] = net->n_weights++;
		for (int part = 0; part < CG_GATE_PARTS; part++)
			net->part[part][number[k]] = (signed char)(cg_gate_weights(cell, k) >> part & 1 ? net->n_parts[part]++ : -1);
	}
	if (!net->n_parts[CG_PART_W])
		return cg_fail(CG_UNSUPPORTED,
		               "rnn: cell %s: expected a gate that takes x, of a line 'gates' or 'input', since a network has an input",
		               cell->name);
	for (int k = 0; k < cell->n_gates; k++) {
		int of = number[cell->gates[k].whole < 0 ? k : cell->gates[k].whole];

		for (int part = 0; part < CG_GATE_PARTS; part++)
			rnn->gates[k].weight[part] = cell->gates[k].parts >> part & 1 ? net->part[part][of] : -1;
	}
	return CG_OK;
}

/* Sets the column block of each gate: first those that a recurrent product adds to, in the order of their matrices, then gates whose
 * recurrent part is a split gate, then gates without a recurrent part. */
static void lay_out_blocks(struct cg_rnn *rnn)
{
	const struct cg_cell *cell = rnn->net.cell;

	for (int k = 0; k < cell->n_gates; k++)
		rnn->gates[k].block = rnn->gates[k].weight[CG_PART_R];
	for (int stage = 1; stage <= cell->n_stages; stage++) {
		rnn->first[stage] = rnn->first[stage - 1];
		for (int k = 0; k < cell->n_gates; k++)
			rnn->first[stage] += cell->gates[k].stage == stage && rnn->gates[k].block >= 0;
	}
	rnn->n_blocks = rnn->first[cell->n_stages];
	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].whole >= 0)
			rnn->gates[cell->gates[k].whole].block = rnn->n_blocks++;
	for (int k = 0; k < cell->n_gates; k++)
		if (rnn->gates[k].block < 0)
			rnn->gates[k].block = rnn->n_blocks++;
}

/* Adds r, the range of one gate's weights of a part, to the ranges: the last range grows if r continues it, else r is a new range. */
static void add_range(struct cg_gate_range *ranges, int *n, struct cg_gate_range r)
{
	struct cg_gate_range *last = *n ? &ranges[*n - 1] : NULL;

	if (last && last->part == r.part && last->add == r.add && last->weight + last->n == r.weight && last->block + last->n == r.block)
		last->n++;
	else
		ranges[(*n)++] = r;
}

/* Adds to the ranges the weights of one part of all gates, in the order of params. */
static void add_ranges(const struct cg_rnn *rnn, int part, struct cg_gate_range *ranges, int *n)
{
	for (int weight = 0; weight < rnn->net.n_parts[part]; weight++) {
		int k = 0;

		while (rnn->gates[k].weight[part] != weight)
			k++;
		add_range(ranges, n, (struct cg_gate_range){ weight, rnn->gates[k].block, 1, part,
		                                             part == CG_PART_BIAS_W && rnn->gates[k].weight[CG_PART_BIAS_R] >= 0 });
	}
}

static void lay_out_ranges(struct cg_rnn *rnn)
{
	add_ranges(rnn, CG_PART_W, rnn->ranges, &rnn->n_ranges);
	add_ranges(rnn, CG_PART_BIAS_R, rnn->biases, &rnn->n_biases);
	add_ranges(rnn, CG_PART_BIAS_W, rnn->biases, &rnn->n_biases);
	for (int k = 0; k < rnn->net.cell->n_gates; k++)
		if (rnn->gates[k].weight[CG_PART_BIAS_W] < 0 && rnn->gates[k].weight[CG_PART_BIAS_R] < 0)
			add_range(rnn->biases, &rnn->n_biases,
			          (struct cg_gate_range){ rnn->gates[k].block, rnn->gates[k].block, 1, -1, 0 });
}

static int find_saved(const struct cg_rnn *rnn, int value)
{
	for (int k = 0; k < rnn->net.cell->n_saves; k++)
		if (rnn->net.cell->saves[k] == value)
			return k;
	return -1;
}

/* Does a function of this shape in the kernel's plan, or one that computes means for it, have an argument with this role, index and
 * derivative?  index -1: any index. */
static int reads(const struct cg_pass_plan *plan, int shape, int role, int index, int derivative)
{
	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 0; plan->functions[p].serves == shape && k < plan->functions[p].n_arguments; k++) {
			const struct cg_argument *a = &plan->functions[p].arguments[k];

			if (a->role == role && (index < 0 || a->index == index) && a->derivative == derivative)
				return 1;
		}
	return 0;
}

/* The largest number of means over units that a function of this shape reads for one row. */
static int count_means(const struct cg_pass_plan *plan, int shape)
{
	int most = 0;

	for (int p = 0; p < plan->n_functions; p++)
		if (plan->functions[p].serves == shape && plan->functions[p].means > most)
			most = plan->functions[p].means;
	return most;
}

/* Finds the cell states and the output among the values of the step before. */
static void find_states(struct cg_rnn *rnn)
{
	const struct cg_cell *cell = rnn->net.cell;

	for (int k = 0; k < cell->n_prevs; k++) {
		rnn->slot[k] = (signed char)(cell->prevs[k].output ? -1 : rnn->n_states++);
		rnn->output = cell->prevs[k].output ? k : rnn->output;
	}
}

/* Sets the values that each step saves: those that the cell saves, and always its output and cell states. */
static void find_saved_values(struct cg_rnn *rnn)
{
	const struct cg_cell *cell = rnn->net.cell;

	rnn->n_saved = cell->n_saves;
	rnn->saved_h = find_saved(rnn, cell->prevs[rnn->output].value);
	if (rnn->saved_h < 0)
		rnn->saved_h = rnn->n_saved++;
	for (int k = 0; k < cell->n_prevs; k++) {
		int saved = rnn->slot[k] < 0 ? 0 : find_saved(rnn, cell->prevs[k].value);

		if (rnn->slot[k] < 0)
			continue;
		saved = saved < 0 ? rnn->n_saved++ : saved;
		rnn->saved_c[rnn->slot[k]] = saved;
		rnn->saved[saved].acc = 1;
	}
}

static void find_vectors(struct cg_rnn *rnn)
{
	for (int k = 0; k < rnn->net.cell->n_weights; k++)
		if (cg_has_weight(&rnn->net.cell->weights[k], rnn->options))
			rnn->vectors[rnn->net.n_vectors++] = k;
}

int cg_rnn_lay_out_cell(struct cg_rnn *rnn)
{
	find_states(rnn);
	CG_TRY(lay_out_gates(rnn));
	lay_out_blocks(rnn);
	lay_out_ranges(rnn);
	find_saved_values(rnn);
	find_vectors(rnn);
	rnn->net.n_scalars = rnn->net.cell->n_scalars;
	return CG_OK;
}

/* ---- its kernels ---- */

/* Sets which values the backward pass needs, by the arguments of the gradient's functions. */
static void read_grad(struct cg_rnn *rnn, const struct cg_pass_plan *plan)
{
	rnn->sums_prev_h = reads(plan, CG_FUNCTION_SUM_PART, CG_ROLE_PREV, rnn->output, CG_VALUE);
	for (int k = 0; k < rnn->net.cell->n_prevs; k++)
		if (rnn->slot[k] >= 0)
			rnn->sums_prev_c[rnn->slot[k]] = reads(plan, CG_FUNCTION_SUM_PART, CG_ROLE_PREV, k, CG_VALUE);
	rnn->sums_carry  = reads(plan, CG_FUNCTION_SUM_PART, CG_ROLE_STATE, -1, CG_D) || reads(plan, CG_FUNCTION_SUM_PART, CG_ROLE_FEED, -1, CG_D);
	rnn->keeps_gates = reads(plan, CG_FUNCTION_POINT, CG_ROLE_GATE, -1, CG_VALUE) ||
	                   reads(plan, CG_FUNCTION_SUM_PART, CG_ROLE_GATE, -1, CG_VALUE);
	rnn->uses_h_prev = reads(plan, CG_FUNCTION_POINT, CG_ROLE_PREV, rnn->output, CG_D);
	rnn->d_means = count_means(plan, CG_FUNCTION_POINT);
	rnn->sum_means = count_means(plan, CG_FUNCTION_SUM_PART);
	for (int p = 0; p < plan->n_functions; p++)
		if (plan->functions[p].shape == CG_FUNCTION_SUM_PART && rnn->sum_values < cg_sum_values(&plan->functions[p]))
			rnn->sum_values = cg_sum_values(&plan->functions[p]);
}

/* Sets the largest number of means over units that a function of the forward pass reads for one row, and checks that the network's cell can
 * have a projection if the network has one. */
static int read_forward(struct cg_rnn *rnn, const struct cg_pass_plan *forward)
{
	int depends = reads(forward, CG_FUNCTION_POINT, CG_ROLE_PREV, rnn->output, CG_VALUE) || !cg_has_product(rnn->net.cell, 1);

	rnn->means = count_means(forward, CG_FUNCTION_POINT);
	if (rnn->net.P && (!rnn->n_states || depends || rnn->net.cell->n_stages > 1))
		return REFUSE("proj: cell %s: a projection needs a cell with a cell state, one stage, a recurrent product, and "
		              "equations that do not read %s",
		              rnn->net.cell->name,
		              rnn->net.cell->prevs[rnn->output].name);
	return CG_OK;
}

int cg_rnn_compile(struct cg_rnn *rnn)
{
	CG_TRY(cg_open_cell_kernel(rnn->context, rnn->net.cell, rnn->options, CG_SEQ_FORWARD, 0, rnn->net.dtype, &rnn->forward));
	if (rnn->net.training) {
		CG_TRY(cg_open_cell_kernel(rnn->context, rnn->net.cell, rnn->options, CG_SEQ_GRAD, 0, rnn->net.dtype, &rnn->grad));
		read_grad(rnn, rnn->grad->plan);
	}
	return read_forward(rnn, rnn->forward->plan);
}

static void read_stage_inputs(struct cg_rnn *rnn, int grad, const struct cg_pass_plan *plan)
{
	for (int k = 0; k < rnn->net.cell->n_stages - 1; k++)
		rnn->stage_input_saved[grad][k] = (signed char)cg_feed_saved(plan, k);
}

int cg_rnn_analyse_gradient(struct cg_rnn *rnn)
{
	static const int passes[] = { CG_SEQ_FORWARD, CG_SEQ_GRAD };
	struct cg_mistake mistake;
	int code = CG_OK;

	for (int k = 0; k < 1 + rnn->net.training && !code; k++) {
		struct cg_pass_plan *plan = cg_plan(rnn->net.cell, rnn->options, passes[k], 0, rnn->net.dtype, cg_memory, &mistake);

		if (!plan)
			return mistake.text[0] ? cg_fail(CG_BUILD, "%s", mistake.text) : CG_NO_MEMORY;
		if (k)
			read_grad(rnn, plan);
		else
			code = read_forward(rnn, plan);
		read_stage_inputs(rnn, k, plan);
		cg_plan_free(plan);
	}
	return code;
}
