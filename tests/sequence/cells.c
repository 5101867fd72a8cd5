/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells of many forms in networks, built in and a user's own: gradients compared with differences in f64, and answers in other dtypes
 * compared with those in f64. One test shows how params are rounded to the dtype.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gen/cell.h"
#include "verify/numbers.h"
#include "tests/sequence/slopes.h"
#include "tests/sequence/suite.h"

/* A cell that saves no values, so that the gradient recomputes all of them from the gates. */
static const char thrifty[] =
	"cell thrifty\n" "gates a_i a_g\n" "state c\n" "output h\n"
	"i = sigmoid(a_i)\n" "c = i * c_prev + (1 - i) * tanh(a_g)\n" "h = tanh(c) * i\n";

/* A cell with unusual names, whose equations read the output of the step before. */
static const char output_y[] =
	"cell output_y\n" "gates u v\n" "state s\n" "output y\n"
	"g = sigmoid(v)\n" "s = 0.5 * s_prev + tanh(u) * y_prev\n" "y = g * s + 0.25 * y_prev\n" "save g s\n";

/* A cell with a param without a default. */
static const char leaky[] =
	"cell leaky\n" "gates a\n" "output h\n" "param rate, shift = 0.25\n"
	"t = tanh(a + shift)\n" "h = rate * h_prev + (1 - rate) * t\n" "save t h\n";

/* A cell with weights outside the gates; the sums for their gradients read the gradients of the output and of the state. */
static const char weighted[] =
	"cell weighted\n" "gates a_f a_g\n" "state c\n" "output h\n" "option weigh w_c w_h\n"
	"f = sigmoid(a_f)\n" "g = tanh(a_g)\n" "c = (1 + w_c) * f * c_prev + g\n" "h = (1 + w_h) * tanh(c) * f\n" "save f g\n";

/* A cell of two stages, with a weight in the input of the second product. */
static const char staged[] =
	"cell staged\n" "gates a_r a_u\n" "output h\n" "option weigh w_r w_u\n"
	"r = sigmoid(a_r)\n" "u = sigmoid(a_u)\n" "v = (1 + w_r) * r * h_prev\n"
	"stage v\n" "gates a_c\n" "c = tanh(a_c)\n" "h = u * h_prev + (1 - u) * (1 + w_u) * c\n" "save r u c\n";

/* A cell with a cell state, and with a split gate between other gates. */
static const char parted[] =
	"cell parted\n" "gates a_p a_n a_o\n" "split q_n\n" "state c\n" "output h\n"
	"p = sigmoid(a_p)\n" "q = q_n\n" "n = tanh(a_n + p * q)\n" "c = c_prev * p + n\n" "h = tanh(c) * sigmoid(a_o)\n" "save p q n c\n";

/* A cell without a cell state, with two split gates: the recurrent parts of its two other gates. */
static const char stateless[] =
	"cell stateless\n" "gates a_n a_m\n" "split q_n q_m\n" "output h\n"
	"n = tanh(a_n + 0.5 * q_n)\n" "m = sigmoid(a_m - q_m)\n" "h = m * n + (1 - m) * h_prev\n" "save n h\n";

/* A cell of four stages: the second product reads a saved value, the third an alias of a saved value, the last an alias of the state. */
static const char four[] =
	"cell four\n" "gates a_r\n" "state c\n" "output h\n"
	"r = sigmoid(a_r)\n" "u = r * h_prev\n" "stage u\n" "gates a_m\n" "m = tanh(a_m)\n" "n = m\n" "stage n\n"
	"gates a_f\n" "c = sigmoid(a_f) * c_prev + m\n" "k = c\n" "stage k\n" "gates a_o\n" "h = tanh(a_o) * r\n" "save u m c h\n";

/* A cell with a cell state that the next step does not read, and with a gate that a later stage reads. */
static const char unread[] =
	"cell unread\n" "gates a_r a_s\n" "state c\n" "output h\n"
	"v = tanh(a_r)\n" "stage v\n" "gates a_c\n" "c = tanh(a_c + a_s)\n" "h = c * v\n" "save h\n";

/* A cell with named forms such as silu, and with max, min and abs, whose arguments lie near no kink. */
static const char formed[] =
	"cell formed\n" "gates a_f a_g a_o\n" "state c\n" "output h\n"
	"f = hard_sigmoid(tanh(a_f))\n" "t = 1.5 + tanh(a_o)\n" "g = min(silu(a_g), silu(a_g) + t)\n" "c = f * c_prev + (1 - f) * g\n"
	"h = softsign(max(t, 0.125 * t) * abs(-t)) * silu(c)\n" "save f t g c\n";

/* A cell with logarithms, roots and the error function, and with no divisor near 0. */
static const char rooted[] =
	"cell rooted\n" "gates a_f a_g a_o\n" "state c\n" "output h\n"
	"f = 0.5 + erf(a_f) / 2\n" "g = log1p(exp(tanh(a_g))) - expm1(tanh(a_f)) / 4\n" "r = sqrt(1 + a_o * a_o)\n"
	"c = f * c_prev + (1 - f) * g / r\n" "h = gelu(c) + softplus(a_o - 1) / (r * r) - log(1 + r) / 8\n" "save f g r c\n";

static const struct kind {
	const char *name, *text;                 /* text: NULL for a built-in cell; if it ends in .cell, the path of a file of the source */
	const char *options;
	int is_first;                            /* the case is tested also where kernels take long to compile */
	int64_t P;
	int n_values;
	struct cg_value values[2];
} kinds[] = {
	{ "lstm", NULL, "peephole", 0, 0, 0, { { NULL, 0 } } },
	{ "gru_block", NULL, NULL, 1, 0, 0, { { NULL, 0 } } },
	{ "lstm_block", NULL, "peephole", 1, 0, 2, { { "forget_bias", 0.5 }, { "cell_clip", 16 } } },
	{ "lstm_block", NULL, NULL, 0, 2, 1, { { "forget_bias", -0.25 } } },
	{ "coupled", "tests/gen/coupled.cell", "peephole", 0, 0, 0, { { NULL, 0 } } },
	{ "coupled", "tests/gen/coupled.cell", NULL, 0, 2, 0, { { NULL, 0 } } },
	{ "thrifty", thrifty, NULL, 0, 0, 0, { { NULL, 0 } } },
	{ "thrifty", thrifty, NULL, 1, 2, 0, { { NULL, 0 } } },
	{ "output_y", output_y, NULL, 1, 0, 0, { { NULL, 0 } } },
	{ "leaky", leaky, NULL, 1, 0, 2, { { "shift", -0.5 }, { "rate", 0.75 } } },
	{ "weighted", weighted, "weigh", 1, 0, 0, { { NULL, 0 } } },
	{ "weighted", weighted, "weigh", 1, 2, 0, { { NULL, 0 } } },
	{ "staged", staged, "weigh", 1, 0, 0, { { NULL, 0 } } },
	{ "staged", staged, NULL, 0, 0, 0, { { NULL, 0 } } },
	{ "parted", parted, NULL, 1, 0, 0, { { NULL, 0 } } },
	{ "parted", parted, NULL, 0, 2, 0, { { NULL, 0 } } },
	{ "stateless", stateless, NULL, 0, 0, 0, { { NULL, 0 } } },
	{ "four", four, NULL, 1, 0, 0, { { NULL, 0 } } },
	{ "unread", unread, NULL, 1, 0, 0, { { NULL, 0 } } },
	{ "formed", formed, NULL, 1, 0, 0, { { NULL, 0 } } },
	{ "rooted", rooted, NULL, 1, 0, 0, { { NULL, 0 } } },
};
enum { KINDS = sizeof kinds / sizeof *kinds, WAYS = 5 };

/* If CELLGRAD_TEST_CELL names a built-in cell, the cases are that cell without options and, if it has options, with all of them; else the
 * cases are `kinds`. */
static const struct kind *kind_of(int k)
{
	static char options[CG_OPTIONS_MAX * (CG_NAME_MAX + 1)];
	static struct kind kind;
	const char *name = getenv("CELLGRAD_TEST_CELL");
	const struct cg_cell *cell = name ? cg_cell_find(name) : NULL;

	if (!name)
		return k < KINDS ? &kinds[k] : NULL;
	if (!cell)
		fail_msg("%s", cg_message());
	*options = 0;
	for (int o = 0; o < cell->n_options; o++)
		sprintf(options + strlen(options), "%s%s", o ? "," : "", cell->options[o].name);
	kind = (struct kind){ .name = name, .options = k ? options : NULL, .is_first = 1 };
	return k < 1 + (cell->n_options > 0) ? &kind : NULL;
}

static int is_spared(const struct kind *kind)
{
	return network_is_slow() && !kind->is_first;
}

static char *source(const char *path)
{
	static char text[8192];
	const char *srcdir = getenv("srcdir");
	char whole[4096];
	FILE *file;

	snprintf(whole, sizeof whole, "%s/%s", srcdir ? srcdir : ".", path);
	file = fopen(whole, "r");
	if (!file)
		fail_msg("%s: cannot be opened", whole);
	text[fread(text, 1, sizeof text - 1, file)] = 0;
	fclose(file);
	return text;
}

/* Returns the cell of a case, which the caller closes; closing a built-in cell does nothing. */
static struct cg_cell *cell_of(const struct kind *kind)
{
	const char *end = kind->text ? kind->text + strlen(kind->text) - 5 : "";
	struct cg_cell *cell;

	if (!kind->text)
		return (struct cg_cell *)cg_cell_find(kind->name);
	if (cg_cell_parse(strcmp(end, ".cell") ? kind->text : source(kind->text), kind->name, &cell))
		fail_msg("%s", cg_message());
	return cell;
}

/* Each of the five networks of a cell has two layers.  The first network is dense, in one direction; the other four networks are in both
 * directions: ragged; ragged, with a skipped input and `accumulate`; batch-major with dropout; without initial states and
 * output_backprop, with so many steps and rows that the recurrent weights are packed. */
static void choose(struct network *net, const struct kind *kind, const struct cg_cell *cell, int way)
{
	static const int32_t lengths[] = { 2, 4, 0, 3, 1 };

	network_init(net);
	net->config.cell = cell;
	net->config.options = kind->options;
	net->config.proj = kind->P;
	net->config.n_values = kind->n_values;
	memcpy(net->values, kind->values, sizeof kind->values);
	net->config.layers = 2;
	net->config.units = 3;
	net->config.input = way == 2 ? 3 : 2;
	net->config.input_mode = CG_AUTO;
	net->config.bidirectional = way != 0;
	net->ragged = way == 1 || way == 2;
	net->config.time_major = way != 3;
	net->config.dropout = way == 3 ? 0.4 : 0;
	net->accumulate = way == 2;
	net->absent = way == 4 ? 1 << INPUT_H | 1 << INPUT_C | 1 << OUTPUT_BACKPROP : 0;
	net->memory = way % 3;
	net->T = way < 4 ? 4 : 9;
	net->B = way < 4 ? 4 : 5;
	memcpy(net->lengths, lengths, sizeof lengths);
}

static int lacks_f64(void)
{
	if (network_has(CG_F64))
		return 0;
	print_message("# the device has no f64\n");
	skip();
	return 1;
}

/* With training=0 a network without dropout has the outputs that it has with training=1, to the bit, or on backend cuda nearly. */
static void check_inference(const struct network *net)
{
	struct network other = *net;

	if (net->config.dropout > 0)
		return;
	other.config.training = 0;
	network_open(&other);
	for (int a = 0; a < INPUTS; a++)
		memcpy(other.at[a], net->at[a], (size_t)net->n[a] * sizeof(double));
	network_forward(&other);
	network_alike(net, &other, FORWARD_OUTPUTS, "without training");
	network_close(&other);
}

void test_cells(void **nothing)
{
	struct slopes s = { .checked = 0 };
	unsigned long long state;
	const struct kind *kind;
	struct network net;

	(void)nothing;
	if (lacks_f64())
		return;
	for (int k = 0; (kind = kind_of(k / WAYS)); k++) {
		struct cg_cell *cell;

		if (is_spared(kind))
			continue;
		cell = cell_of(kind);
		network_case("cells", k, &state);
		choose(&net, kind, cell, k % WAYS);
		network_open(&net);
		network_draw(&net, &state, 0.5);
		slopes_check(&net, &state, network_is_slow() ? 2 : 0, &s);
		network_forward(&net);
		check_inference(&net);
		network_close(&net);
		cg_cell_close(cell);
	}
	print_message("# cells: %ld slopes, worst over what is allowed %.3f\n", s.checked, s.worst);
}

/* ---- params ---- */

/* The difference of a param, 0.1 in the dtype, and a constant, 0.1 in f32, shows how the param was rounded. */
static const char rounded[] =
	"cell rounded\n" "gates a\n" "output h\n" "param given, kept = 0.1\n"
	"h = ((given - 0.1) * 4096 + (kept - 0.1) * 8192) * a\n" "save h\n";

static void expect_factor(const struct network *net, const char *what, double right, double got)
{
	if (!(fabs(got - right) <= fabs(right) / 128))
		network_fail(net, "%s: a param of 0.1 was not rounded to the dtype: expected %g, got %g", what, right, got);
}

/* In f16 and bf16, the values of a cell's params are rounded to the dtype.  One unit has bias 1 and weights 0, so that its output and its
   bias gradient are the factor of `a` in the cell's equation. */
void test_values(void **nothing)
{
	static const struct { int dtype; double tenth; } dtypes[] = { { CG_F16, 0x1.998p-4 }, { CG_BF16, 0x1.9ap-4 } };
	struct cg_cell *cell;
	struct network net;
	unsigned long long state;

	(void)nothing;
	assert_int_equal(cg_cell_parse(rounded, "rounded", &cell), CG_OK);
	for (int d = 0; d < 2; d++) {
		double right = (dtypes[d].tenth - 0.1f) * (4096 + 8192);

		if (!network_has(dtypes[d].dtype))
			continue;
		network_case("values", d, &state);
		network_init(&net);
		net.config.cell = cell;
		net.config.dtype = dtypes[d].dtype;
		net.config.input = net.config.units = net.T = net.B = net.config.n_values = 1;
		net.values[0] = (struct cg_value){ "given", 0.1 };
		network_open(&net);
		/* the network's four params are W, R, bW and bR */
		assert_int_equal(net.n[PARAMS], 4);
		net.at[PARAMS][2] = net.at[OUTPUT_BACKPROP][0] = 1;
		network_forward(&net);
		network_backward(&net);
		expect_factor(&net, "output", right, net.at[OUTPUT][0]);
		expect_factor(&net, "params_backprop", right, net.at[PARAMS_BACKPROP][2]);
		network_close(&net);
	}
	cg_cell_close(cell);
}

/* ---- other dtypes ---- */

static double largest(const struct network *net, int a)
{
	double most = 0;

	for (int64_t n = 0; n < net->n[a]; n++)
		most = fmax(most, fabs(net->at[a][n]));
	return most;
}

/*
 * A cell that the reference does not know has no error bound. But a rounding on the way to a result counts as a change of an input by one
 * rounding, and the effect of such changes is measured in f64: how far each array's answers move, divided by the fraction by which the
 * inputs change.
 */
static void measure_moves(const struct network *right, unsigned long long *state, double moves[ARRAYS])
{
	const double part = 0x1p-20;

	memset(moves, 0, ARRAYS * sizeof *moves);
	for (int again = 0; again < 2; again++) {
		struct network net = *right;

		network_open(&net);
		for (int a = 0; a < INPUTS; a++)
			for (int64_t n = 0; n < net.n[a]; n++)
				net.at[a][n] = right->at[a][n] * (1 + part * (2 * numbers_uniform(state) - 1));
		network_forward(&net);
		network_backward(&net);
		for (int a = OUTPUT; a < ARRAYS; a++)
			for (int64_t n = 0; n < net.n[a]; n++)
				moves[a] = fmax(moves[a], fabs(net.at[a][n] - right->at[a][n]) / part);
		network_close(&net);
	}
}

/* roundings: how many are allowed, forward and backward. In f16 and bf16 the roundings are those of stored values: forward of h, backward
 * also of saved values and gradients of gates. In f32 the roundings are those of each operation. */
static const struct { int dtype; double unit, roundings[2]; } dtypes[] = {
	{ CG_F32, 0x1p-24, { 5, 8 } }, { CG_F16, 0x1p-11, { 2, 4 } }, { CG_BF16, 0x1p-8, { 2, 4 } },
};

/* Returns the largest difference from the answers in f64, divided by the allowed difference; a difference that is not allowed fails the
 * test. */
static double beside(const struct network *net, const struct network *right, int d, const double moves[ARRAYS])
{
	double worst = 0;

	for (int a = OUTPUT; a < ARRAYS; a++) {
		double allowed = dtypes[d].roundings[a > OUTPUT_C] * dtypes[d].unit * (largest(right, a) + moves[a]);

		for (int64_t n = 0; n < net->n[a]; n++) {
			double off = fabs(net->at[a][n] - right->at[a][n]);

			if (!(off <= allowed))
				network_fail(net, "array %d[%lld]: expected %.9g within %.3g, got %.9g", a, (long long)n, right->at[a][n], allowed,
				             net->at[a][n]);
			if (allowed > 0)
				worst = fmax(worst, off / allowed);
		}
	}
	return worst;
}

void test_dtypes(void **nothing)
{
	struct network net, right;
	unsigned long long state;
	const struct kind *kind;
	double worst[3] = { 0 }, moves[ARRAYS];

	(void)nothing;
	if (lacks_f64())
		return;
	for (int k = 0; (kind = kind_of(k / WAYS)); k++) {
		struct cg_cell *cell;

		if (is_spared(kind))
			continue;
		cell = cell_of(kind);
		network_case("dtypes", k, &state);
		choose(&right, kind, cell, k % WAYS);
		network_open(&right);
		network_draw(&right, &state, 0.5);
		/* Multiples of 2^-7 below 1 are representable in all dtypes. */
		for (int a = 0; a < INPUTS; a++)
			for (int64_t n = 0; n < right.n[a]; n++)
				right.at[a][n] = fmod(rint(right.at[a][n] * 128), 128) / 128;
		network_forward(&right);
		network_backward(&right);
		measure_moves(&right, &state, moves);
		for (int d = 0; d < 3; d++) {
			if (!network_has(dtypes[d].dtype) || (network_is_slow() && d != k / WAYS % 3))
				continue;
			net = right;
			net.config.dtype = dtypes[d].dtype;
			network_open(&net);
			for (int a = 0; a < INPUTS; a++)
				memcpy(net.at[a], right.at[a], (size_t)net.n[a] * sizeof(double));
			network_forward(&net);
			network_backward(&net);
			worst[d] = fmax(worst[d], beside(&net, &right, d, moves));
			network_close(&net);
		}
		network_close(&right);
		cg_cell_close(cell);
	}
	print_message("# dtypes: worst over what is allowed: f32 %.3f, f16 %.3f, bf16 %.3f\n", worst[0], worst[1], worst[2]);
}
