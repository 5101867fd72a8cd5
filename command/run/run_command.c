/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad run`: runs an op on tensors from files, and writes the outputs to a file, prints them, or compares them with expected
 * ones. This file reads the arguments; the call of the op is in op_call.c, the comparison in expected.c and compare.c.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command/run/op_call.h"
#include "command/command.h"
#include "command/run/compare.h"
#include "command/describe.h"
#include "command/output.h"

enum { OUTPUT = OPTION_FIRST, EXPECT, STRICT, RTOL, ATOL, IGNORE_METADATA };

static const struct poptOption table[] = {
	OPTION_VALUE("output", 'o', OUTPUT, "write all outputs, with the attributes as metadata", "FILE"),
	OPTION_VALUE("expect", 'e', EXPECT, "compare the outputs with those in FILE; exit 1 on a mismatch", "FILE"),
	OPTION_FLAG("strict", '\0', STRICT, "reject files with tensors that the op does not take"),
	OPTION_FLAG("ignore-metadata", '\0', IGNORE_METADATA, "ignore the metadata of FILEs"),
	OPTION_VALUE("rtol", '\0', RTOL, "with --expect: tolerate a difference of X times the expected magnitude, plus --atol", "X"),
	OPTION_VALUE("atol", '\0', ATOL, "with --expect: tolerate a difference of X, plus the part that --rtol allows", "X"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "OP [NAME=VALUE]... FILE... [OPTION]...";
static const char text[] =
	"OP is TensorFlow's name (LSTMBlockCellGrad: exactly TensorFlow's outputs) or\n"
	"cellgrad's (lstm_block_cell_grad: also the gradients of x, h_prev, w and b).\n"
	"`cellgrad info` lists them; `cellgrad run OP --help` shows the tensors of OP.\n"
	"\n"
	"FILEs are safetensors, in any order.  Tensors have their TensorFlow names (x,\n"
	"cs_prev, w, ...); others are ignored.  A tensor that two files have must be the\n"
	"same in both if the op reads it.\n"
	"\n"
	"Attributes come from NAME=VALUE (cell_clip=-1 use_peephole=true), else from the\n"
	"metadata of the FILEs, else from TensorFlow's defaults.  Scalar inputs\n"
	"(seq_len_max=5) are given like attributes or as tensors of rank 0 in a FILE.  T,\n"
	"the dtype, is that of the tensors.  A file whose name looks like NAME=VALUE is\n"
	"given as ./NAME=VALUE.\n"
	"\n"
	"FILEs whose metadata disagree are rejected, unless NAME=VALUE decides.  What\n"
	"defines the meaning of weights or of a reserve space cannot be overridden: a\n"
	"NAME=VALUE that contradicts the metadata about the cell, options, values, sizes,\n"
	"direction, input_mode or dtype is rejected.  Metadata that contradicts the\n"
	"tensors or OP, for example the order of OP's gates, is rejected, too.  Cells are\n"
	"compared by their text, not by their path.  --ignore-metadata ignores the\n"
	"metadata of all FILEs.\n"
	"\n"
	"Networks are TensorFlow's CudnnRNN family, each version with its own attributes,\n"
	"inputs and outputs.  Lists are numbered tensors, weights_0 weights_1 ...,\n"
	"biases_0 ....  The OUT of a forward is a FILE of its backward; a backward without\n"
	"a reserve_space in its FILEs runs the forward itself.  A reserve space of another\n"
	"network, call or route is rejected.  cellgrad's rnn and rnn_backprop also take\n"
	"\n"
	"  cell=CELL          a cell by name or a .cell file, with options=NAME,... and\n"
	"                     values=NAME=NUMBER,... of its params\n"
	"  counter=N          number of the call, for dropout; first_step=N: the first\n"
	"                     step in a longer sequence; no_dropout=true: drop nothing\n"
	"  reverse=true       one direction, from each row's last valid step to its first\n"
	"  states_major=true  states are [L*D, B, .] with time_major=false, too\n"
	"  route=ROUTE        composed, scan or cudnn: that route, or reject the call\n"
	"  strict_rounding=true  never use cuDNN, which rounds sums, for f16 and bf16\n"
	"  num_units=N        and num_layers=N: the size of the network if there are no\n"
	"                     states; states, lengths and gradients may be left out\n"
	"\n"
	"With neither -o nor --expect the outputs are listed: dtype, shape, smallest,\n"
	"largest and mean element.\n"
	"\n"
	"For an expected element e of a tensor whose largest magnitude is m, --expect\n"
	"tolerates a difference of\n"
	"\n"
	"    2 u |e| + (16 + 4 sqrt(n)) a m + s\n"
	"\n"
	"  n  the length of the longest sum of the op: the maximum of B (T B in a\n"
	"     sequence), I+U and 4U (2U in a GRU); for a network the maximum of T B, its\n"
	"     widths and L D\n"
	"  u  half the spacing of numbers near 1, in the coarser of the dtypes of the op\n"
	"     and of FILE: f64 2^-53, f32 2^-24, f16 2^-11, bf16 2^-8\n"
	"  a  the same for the dtype of the computation: f64 2^-53, else 2^-24; but that\n"
	"     of the op's dtype for gradients, sequences and the GRU, whose products read\n"
	"     values that were rounded to the op's dtype\n"
	"  s  the smallest normal number of the op's dtype (f64, f16: the smallest)\n"
	"\n"
	"NaN equals NaN, and an infinity equals itself.  FILE may have another floating-\n"
	"point dtype, and under cellgrad's names of ops may lack outputs.  Outputs that\n"
	"TensorFlow leaves uninitialised from seq_len_max on are compared up to there; the\n"
	"number of elements left out is printed.  --rtol and --atol replace the rule by\n"
	"rtol |e| + atol.\n"
	"\n"
	"Examples:\n"
	"  cellgrad run LSTMBlockCell cell_clip=-1 in.safetensors -o fwd.safetensors\n"
	"  cellgrad run LSTMBlockCellGrad in.safetensors fwd.safetensors up.safetensors\n"
	"  cellgrad run GRUBlockCellGrad in.safetensors --expect tensorflow.safetensors\n"
	"  cellgrad run BlockLSTM seq_len_max=20 in.safetensors -o fwd.safetensors\n"
	"  cellgrad run BlockLSTMGrad in.safetensors fwd.safetensors up.safetensors\n"
	"  cellgrad run CudnnRNNV3 rnn_mode=gru in.safetensors -o fwd.safetensors\n"
	"  cellgrad run CudnnRNNBackpropV3 in.safetensors fwd.safetensors up.safetensors\n"
	"  cellgrad run CudnnRNNParamsSize num_layers=2 num_units=512 input_size=256\n"
	"  cellgrad run rnn cell=./mine.cell values=leak=0.1 in.safetensors\n"
	"\n"
	"Exit status: 0 success; 1 outputs differ, or the command failed while working;\n"
	"2 the call was rejected before any work.\n";

struct run {
	struct call call;
	struct file output;
	struct safetensors expected;
	int has_output, has_expected, json;
	struct allowance rule;
};

/* ---- before the work ---- */

static int is_attribute(const char *word)
{
	const char *at = word;

	if (!isalpha((unsigned char)*at) && *at != '_')
		return 0;
	while (isalnum((unsigned char)*at) || *at == '_')
		at++;
	return *at == '=';
}

static int reads_tensors(const struct cg_op *row)
{
	return row->ports->flow == CG_IN;
}

static int bind_operands(struct call *c, const char **word)
{
	if (!*word)
		return cg_fail(CG_BAD_ARGUMENT, "which op?  cellgrad info lists them, --help has examples");
	CG_TRY(call_open(c, *word));
	while (*++word)
		if (is_attribute(*word))
			CG_TRY(call_attribute(c, *word));
		else
			CG_TRY(call_file(c, *word));
	if (!c->n_files && reads_tensors(c->row))
		return cg_fail(CG_BAD_ARGUMENT, "%s: no files: give the safetensors files that hold its inputs",
		               c->name);
	return CG_OK;
}

static int tolerance(const struct options *o, int number, const char *name, struct allowance *rule, double *value)
{
	const char *word = o->value[number];
	char *end, shown[PRINT_NAME];

	if (!word)
		return CG_OK;
	if (!o->value[EXPECT])
		return cg_fail(CG_BAD_ARGUMENT, "--%s has no meaning without --expect", name);
	*value = strtod(word, &end);
	if (end == word || *end || !isfinite(*value) || *value < 0)
		return cg_fail(CG_BAD_ARGUMENT, "--%s: expected a finite number of at least 0, got \"%s\"", name,
		               print_name(shown, word));
	rule->given = 1;
	return CG_OK;
}

static int prepare(struct run *r, const struct options *o)
{
	CG_TRY(tolerance(o, RTOL, "rtol", &r->rule, &r->rule.rtol));
	CG_TRY(tolerance(o, ATOL, "atol", &r->rule, &r->rule.atol));
	CG_TRY(bind_operands(&r->call, o->operands));
	r->call.ignore_metadata = !!o->value[IGNORE_METADATA];
	CG_TRY(call_bind(&r->call, !!o->value[STRICT]));
	CG_TRY(plan_warn_recurrence(&r->call, "run"));
	if (o->value[EXPECT]) {
		CG_TRY(safetensors_open(&r->expected, o->value[EXPECT]));
		r->has_expected = 1;
		CG_TRY(call_expect(&r->call, &r->expected));
	}
	if (o->value[OUTPUT]) {
		CG_TRY(file_check(&r->output, o->value[OUTPUT]));
		r->has_output = 1;
	}
	return CG_OK;
}

/* ---- after it ---- */

static int write_outputs(struct run *r)
{
	struct safetensors_tensor *all = cg_memory(NULL, (size_t)r->call.n * sizeof *all);
	json_t *metadata = call_metadata(&r->call);
	size_t n = 0;
	int code = CG_NO_MEMORY;

	for (int k = 0; k < r->call.n && all; k++) {
		const struct call_argument *a = &r->call.arguments[k];

		if (!call_has_output(&r->call, &r->call.row->ports[k]))
			continue;
		all[n] = (struct safetensors_tensor){ .name = r->call.row->ports[k].name, .dtype = call_code(&r->call, k),
		                                      .cg = r->call.row->ports[k].type ? -1 : r->call.dtype, .rank = a->rank, .data = a->answer, .bytes = a->bytes };
		memcpy(all[n++].shape, a->shape, sizeof a->shape);
	}
	if (all && metadata)
		code = safetensors_write(&r->output, all, n, metadata);
	json_decref(metadata);
	cg_memory(all, 0);
	return code;
}

struct summary { double least, most, mean; size_t n; };

static struct summary summarise(const struct call *c, int port)
{
	const struct cg_port *p = &c->row->ports[port];
	struct summary s = { INFINITY, -INFINITY, 0, call_elements(c, port) };

	if (p->flags & CG_OPAQUE)
		s.n = 0;                         /* a reserve space has no numbers to summarise */
	for (size_t k = 0; k < s.n; k++) {
		double value = call_element(c, port, k);

		/* one NaN among the elements makes the least, the greatest and the mean element NaN */
		s.least = isnan(value) || value < s.least ? value : s.least;
		s.most = isnan(value) || value > s.most ? value : s.most;
		s.mean += value / (double)s.n;
	}
	return s;
}

static int list_outputs(const struct run *r)
{
	struct print_table t = { .columns = "lllrrr" };
	char shape[PRINT_SHAPE];

	for (int k = 0; k < r->call.n; k++) {
		const struct cg_port *port = &r->call.row->ports[k];
		const struct call_argument *a = &r->call.arguments[k];
		const char *dtype = call_type(&r->call, k);
		struct summary s;

		if (!call_has_output(&r->call, port))
			continue;
		s = summarise(&r->call, k);
		if (r->json) {
			CG_TRY(print_json(json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}",
			                            "name", port->name, "dtype", dtype,
			                            "shape", print_numbers(a->shape, a->rank),
			                            "min", s.n ? print_number(s.least) : json_null(),
			                            "max", s.n ? print_number(s.most) : json_null(),
			                            "mean", s.n ? print_number(s.mean) : json_null())));
			continue;
		}
		if (!t.n)
			print_row(&t, "output", "dtype", "shape", "min", "max", "mean", NULL);
		print_cell(&t, "%s", port->name);
		print_cell(&t, "%s", dtype);
		print_cell(&t, "%s", print_shape(shape, a->shape, a->rank));
		for (int column = 0; column < 3; column++) {
			double value = column == 0 ? s.least : column == 1 ? s.most : s.mean;

			if (s.n)
				print_cell(&t, "%.6g", value);
			else
				print_cell(&t, "-");
		}
	}
	return print_all_rows(&t, "");
}

/* Computes an element's index in each dimension of its tensor. */
static void find_position(const struct call_argument *a, size_t element, int64_t at[CG_RANK])
{
	for (int d = a->rank - 1; d >= 0; d--) {
		at[d] = a->shape[d] ? (int64_t)(element % (uint64_t)a->shape[d]) : 0;
		element /= a->shape[d] ? (uint64_t)a->shape[d] : 1;
	}
}

static int show_comparison(const struct run *r, int port, const struct comparison *c, struct print_table *t)
{
	const struct call_argument *a = &r->call.arguments[port];
	const char *name = r->call.row->ports[port].name;
	size_t left_out = call_elements(&r->call, port) - c->n;
	struct print_colour colour = print_colours(stdout);
	char shown[PRINT_SHAPE], rest[48] = "";
	int64_t at[CG_RANK];

	find_position(a, c->at, at);
	if (r->json)
		return print_json(json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:b}",
		                            "name", name, "shape", print_numbers(a->shape, a->rank),
		                            "error", print_number(c->error), "at", print_numbers(at, a->rank),
		                            "allowance", print_number(c->allowance),
		                            "got", print_number(c->got), "want", print_number(c->want),
		                            "wrong", (json_int_t)c->wrong, "left_out", (json_int_t)left_out, "ok", !c->wrong));
	if (left_out)
		snprintf(rest, sizeof rest, "; %zu left out", left_out);
	if (!t->n)
		print_row(t, "output", "worst error", "at", "allowed", "got", "expected", "", NULL);
	print_cell(t, "%s", name);
	print_cell(t, "%.3g", c->error);
	print_cell(t, "%s", c->n ? print_shape(shown, at, a->rank) : "-");
	print_cell(t, "%.3g", c->allowance);
	print_cell(t, "%.9g", c->got);
	print_cell(t, "%.9g", c->want);
	if (c->wrong)
		print_cell(t, "%sMISMATCH%s in %zu of %zu%s", colour.bad, colour.off, c->wrong, c->n, rest);
	else
		print_cell(t, "%sok%s%s", colour.good, colour.off, rest);
	return CG_OK;
}

/* Says why a part of an output was not compared. */
static void print_left_out(const struct call *c, int port)
{
	long long T = (long long)c->arguments[port].shape[0], steps = (long long)cg_op_steps(c->row, c->op, T);

	printf("left out: the last %lld of %lld steps, which TensorFlow does not compute and leaves uninitialised\n", T - steps, T);
}

static int compare_outputs(struct run *r, int *mismatch)
{
	struct print_table t = { .columns = "lrlrrrl" };
	int code = CG_OK, shown, left_out = -1;

	for (int k = 0; k < r->call.n && !code; k++) {
		const struct cg_port *port = &r->call.row->ports[k];
		const struct safetensors_tensor *want = safetensors_find(&r->expected, port->name);
		struct comparison c;

		if (!call_has_output(&r->call, port) || !want || port->flags & CG_OPAQUE)
			continue;
		call_compare(&r->call, k, want, &r->rule, &c);
		*mismatch |= c.wrong > 0;
		if (c.n < call_elements(&r->call, k))
			left_out = k;
		code = show_comparison(r, k, &c, &t);
	}
	shown = print_all_rows(&t, "");
	if (left_out >= 0 && !r->json)
		print_left_out(&r->call, left_out);
	return code ? code : shown;
}

static int compute(struct run *r, int *working, int *mismatch)
{
	struct cg_context *context;
	int code;

	CG_TRY(cg_open(NULL, &context));
	code = call_compute(&r->call, context, working);
	cg_close(context);
	if (!code && r->has_output)
		code = write_outputs(r);
	if (!code && r->has_expected)
		code = compare_outputs(r, mismatch);
	if (!code && !r->has_output && !r->has_expected)
		code = list_outputs(r);
	return code;
}

static int run_op(struct run *r, const struct options *o, int *working, int *mismatch)
{
	CG_TRY(prepare(r, o));
	return compute(r, working, mismatch);
}

/* Prints the help of the op, if the command line names one, else the help of the subcommand. */
static int help(const struct options *o)
{
	if (o->operands[0])
		return describe_op(o->operands[0], !!o->value[OPTION_JSON]);
	options_help(o, usage, text);
	return CG_OK;
}

int command_run(int argc, const char **argv)
{
	struct run r = { .output = { .fd = -1 } };
	int code, working = 0, mismatch = 0;
	struct options o;

	code = options_open(&o, "run", argc, argv, table);
	r.json = !code && o.value[OPTION_JSON];
	if (!code && o.value[OPTION_HELP])
		code = help(&o);
	else if (!code)
		code = run_op(&r, &o, &working, &mismatch);
	if (r.has_expected)
		safetensors_close(&r.expected);
	call_close(&r.call);
	options_close(&o);
	return code ? command_fail("run", code, working) : mismatch ? EXIT_WORK : EXIT_OK;
}
