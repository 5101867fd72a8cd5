/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the demo's model, built in double: its gradient against differences of its loss, carried states, learning, its optimiser; and
 * the text as the model reads it.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "command/demo/model.h"
#include "command/demo/text.h"
#include "runtime/core/core.h"

enum { SYMBOLS = 5, UNITS = 3, ROWS = 3, STEPS = 4, N = ROWS * STEPS };
static const struct model_shape shape = { SYMBOLS, UNITS, ROWS, STEPS, NULL };

/* Two batches: symbols [T B], and the symbol that follows each. Rows have different lengths, one has length 0; the constant O
   stands in the steps beyond the end of a row. */
enum { O = -99 };
static const int32_t first_lengths[ROWS] = { 2, 4, 3 }, second_lengths[ROWS] = { 3, 0, 1 };
static const int first_symbols[N] = { 0, 3, 2, 2, 4, 1, O, 1, 0, O, 2, O }, first_next[N] = { 2, 4, 1, 3, 1, 0, O, 2, 4, O, 3, O };
static const int second_symbols[] = { 3, O, 4, 0, O, O, 1, O, O }, second_next[] = { 0, O, 3, 1, O, O, 4, O, O };
static const struct model_batch first = { ROWS, STEPS, first_lengths, first_symbols, first_next };
static const struct model_batch second = { ROWS, 3, second_lengths, second_symbols, second_next };

static struct cg_context *context;

static int open_context(void **state)
{
	(void)state;
	return cg_open("cpu", &context);
}

static int close_context(void **state)
{
	(void)state;
	cg_close(context);
	return 0;
}

static struct model opened(struct model_shape with, uint64_t seed)
{
	struct model m;

	if (model_open(&m, context, with, seed))
		fail_msg("%s", cg_message());
	return m;
}

static double loss_of(struct model *m, const struct model_batch *batch)
{
	double loss;

	if (model_compute_loss(m, MODEL_LEARNT, batch, &loss))
		fail_msg("%s", cg_message());
	return loss;
}

static double grad_of(struct model *m, const struct model_batch *batch)
{
	double loss;

	if (model_compute_grad(m, batch, &loss))
		fail_msg("%s", cg_message());
	return loss;
}

/* ---- the gradient ---- */

/* The states after the first batch are carried into the second batch, whose gradient takes these states as constants. */
enum { STATES = MODEL_LAYERS * ROWS * UNITS };
struct carried { real h[STATES], c[STATES]; };

static struct carried carried_by(const struct model *m)
{
	struct carried c;

	memcpy(c.h, m->carry[MODEL_LEARNT].h, sizeof c.h);
	memcpy(c.c, m->carry[MODEL_LEARNT].c, sizeof c.c);
	return c;
}

static void scatter(struct model *m, const struct carried *c)
{
	memcpy(m->carry[MODEL_LEARNT].h, c->h, sizeof c->h);
	memcpy(m->carry[MODEL_LEARNT].c, c->c, sizeof c->c);
}

static double difference(struct model *m, const struct carried *c, size_t k, double h)
{
	double p = m->p[k], up, down;

	m->p[k] = p + h;
	scatter(m, c);
	up = loss_of(m, &second);
	m->p[k] = p - h;
	scatter(m, c);
	down = loss_of(m, &second);
	m->p[k] = p;
	return (up - down) / (2 * h);
}

/* Checks the n gradients from p[at] on, and returns their largest magnitude. Central differences at h and h/2 are combined into one that is
   exact to the fourth order, and the difference of the two bounds the error. Rounding adds to the error a few units in the last place of
   the loss, divided by h. */
static double compare(struct model *m, const struct carried *c, const char *part, size_t at, size_t n, double *worst)
{
	const double h = 1e-3, rounding = 64 * DBL_EPSILON / h;
	double largest = 0;

	for (size_t k = at; k < at + n; k++) {
		double wide = difference(m, c, k, h), narrow = difference(m, c, k, h / 2);
		double right = (4 * narrow - wide) / 3, allowed = fabs(wide - narrow) + rounding;

		if (!(fabs(m->g[k] - right) <= allowed))
			fail_msg("%s, weight %zu: gradient %.12g, by differences %.12g, allowed %.2g", part, k - at, m->g[k], right,
			         allowed);
		*worst = fmax(*worst, fabs(m->g[k] - right) / allowed);
		largest = fmax(largest, fabs(m->g[k]));
	}
	return largest;
}

/* Compares the gradients of every matrix, bias and peephole of each layer with differences of the loss. */
static size_t compare_network(struct model *m, const struct carried *c, double *worst)
{
	struct cg_rnn_region r;
	size_t compared = 0;
	char part[64];

	for (int layer = 0; layer < MODEL_LAYERS; layer++)
		for (int id = 0; id < 8 + 1 + 3 + 8; id++) {
			int bias = id >= 12;

			assert_int_equal(cg_rnn_region(m->learning, layer, bias ? id - 12 : id, bias, &r), CG_OK);
			snprintf(part, sizeof part, "layer %d, %s %d", layer, bias ? "bias" : "matrix", bias ? id - 12 : id);
			if (r.rows)
				assert_true(compare(m, c, part, (size_t)r.offset, (size_t)(r.rows * r.columns), worst) > 1e-5);
			compared += (size_t)(r.rows * r.columns);
		}
	return compared;
}

static void test_gradient(void **state)
{
	struct model m = opened(shape, 7);
	struct carried carried;
	double worst = 0;

	(void)state;
	loss_of(&m, &first);
	carried = carried_by(&m);
	for (size_t k = 0; k < m.n; k++)
		m.g[k] = NAN;                                    /* backward overwrites gradients and does not add to them */
	grad_of(&m, &second);
	assert_int_equal(compare_network(&m, &carried, &worst), m.at[MODEL_OUT_W]);
	for (int part = MODEL_OUT_W; part < MODEL_PARTS; part++)
		assert_true(compare(&m, &carried, "softmax", m.at[part], m.at[part + 1] - m.at[part], &worst) > 1e-3);
	print_message("# gradient: %zu weights, %.2g of what is allowed\n", m.n, worst);
	model_close(&m);
}

static void test_gradient_twice(void **state)
{
	struct model m = opened(shape, 7), other = opened(shape, 7);

	(void)state;
	grad_of(&m, &first);
	model_reset(&m, MODEL_LEARNT);
	grad_of(&m, &first);
	grad_of(&other, &first);
	assert_memory_equal(m.g, other.g, m.n * sizeof *m.g);
	model_close(&m);
	model_close(&other);
}

/* ---- carried states ---- */

/* Computes the loss of a text other than the training text; the model reads such a text without dropout. */
static double other_loss(struct model *m, const struct model_batch *batch)
{
	double loss;

	if (model_compute_loss(m, MODEL_OTHER, batch, &loss))
		fail_msg("%s", cg_message());
	return loss;
}

/* A batch cut in time into two batches, which are read in turn, gives the loss and the states of the whole batch. A row that has ended
   passes on its states. */
static void test_batches_in_turn_are_one_batch(void **state)
{
	static const int32_t begin_lengths[ROWS] = { 2, 2, 2 }, end_lengths[ROWS] = { 0, 2, 1 };
	const struct model_batch begin = { ROWS, 2, begin_lengths, first_symbols, first_next };
	const struct model_batch end = { ROWS, 2, end_lengths, first_symbols + N / 2, first_next + N / 2 };
	struct model whole = opened(shape, 3), parts = opened(shape, 3);
	double in_one = other_loss(&whole, &first);
	double in_two = (6 * other_loss(&parts, &begin) + 3 * other_loss(&parts, &end)) / 9;

	(void)state;
	assert_true(fabs(in_one - in_two) <= 16 * DBL_EPSILON * in_one);
	assert_memory_equal(whole.carry[MODEL_OTHER].h, parts.carry[MODEL_OTHER].h, STATES * sizeof(real));
	assert_memory_equal(whole.carry[MODEL_OTHER].c, parts.carry[MODEL_OTHER].c, STATES * sizeof(real));
	in_one = other_loss(&whole, &begin);
	model_reset(&parts, MODEL_OTHER);
	assert_true(fabs(in_one - other_loss(&parts, &begin)) > 1e-6);           /* carried states do have an effect */
	model_close(&whole);
	model_close(&parts);
}

/* Two rows in one batch have the losses that each row has alone; the batch's loss is the mean over the symbols of both rows. */
static void test_rows_are_apart(void **state)
{
	static const int32_t lengths[2] = { 1, 3 }, one = 1, three = 3;
	static const int symbols[6] = { 0, 1, O, 2, O, 3 }, next[6] = { 4, 2, O, 3, O, 0 };
	static const int short_symbol = 0, short_next = 4, long_symbols[3] = { 1, 2, 3 }, long_next[3] = { 2, 3, 0 };
	const struct model_batch both = { 2, 3, lengths, symbols, next };
	const struct model_batch alone[2] = { { 1, 1, &one, &short_symbol, &short_next }, { 1, 3, &three, long_symbols, long_next } };
	struct model m = opened(shape, 3);
	double together = other_loss(&m, &both), apart;

	(void)state;
	model_reset(&m, MODEL_OTHER);
	apart = other_loss(&m, &alone[0]);
	model_reset(&m, MODEL_OTHER);
	apart = (apart + 3 * other_loss(&m, &alone[1])) / 4;
	assert_true(fabs(together - apart) <= 16 * DBL_EPSILON * apart);
	model_close(&m);
}

static void test_other_text_and_samples_leave_the_carry(void **state)
{
	struct model m = opened(shape, 3), other = opened(shape, 3);
	int symbols[40];

	(void)state;
	loss_of(&m, &first);
	loss_of(&other, &first);
	other_loss(&m, &second);
	assert_int_equal(model_sample(&m, 1, 1, 0, symbols, 40), CG_OK);
	assert_true(loss_of(&m, &second) == loss_of(&other, &second));
	model_close(&m);
	model_close(&other);
}

/* Dropout makes the loss of a text as training text differ from its loss as other text; its masks change with each step. */
static void test_dropout(void **state)
{
	const struct model_shape wide = { SYMBOLS, 40, ROWS, STEPS, NULL };
	struct model m = opened(wide, 3);
	double learnt = loss_of(&m, &first), other = other_loss(&m, &first);

	(void)state;
	assert_true(fabs(learnt - other) > 1e-6);
	model_reset(&m, MODEL_LEARNT);
	assert_true(loss_of(&m, &first) == learnt);
	m.updates++;
	model_reset(&m, MODEL_LEARNT);
	assert_true(fabs(loss_of(&m, &first) - learnt) > 1e-6);
	model_close(&m);
}

/* A model that moves to another context between steps continues as before. */
static void test_moved_to_another_device(void **state)
{
	struct model m = opened(shape, 3), moved = opened(shape, 3);
	struct cg_context *other;

	(void)state;
	assert_int_equal(cg_open("cpu", &other), CG_OK);
	grad_of(&m, &first);
	grad_of(&moved, &first);
	model_learn(&m, 0.01);
	model_learn(&moved, 0.01);
	assert_int_equal(model_move(&moved, other), CG_OK);
	assert_ptr_equal(moved.context, other);
	assert_true(grad_of(&moved, &second) == grad_of(&m, &second));
	assert_memory_equal(moved.g, m.g, m.n * sizeof *m.g);
	model_learn(&m, 0.01);
	model_learn(&moved, 0.01);
	assert_memory_equal(moved.p, m.p, m.n * sizeof *m.p);
	model_close(&m);
	model_close(&moved);
	cg_close(other);
}

/* ---- seeds, learning, samples ---- */

static void test_seed(void **state)
{
	struct model m = opened(shape, 1), same = opened(shape, 1), other = opened(shape, 2);

	(void)state;
	assert_memory_equal(m.p, same.p, m.n * sizeof *m.p);
	assert_memory_not_equal(m.p, other.p, m.n * sizeof *m.p);
	model_close(&m);
	model_close(&same);
	model_close(&other);
}

static void test_learns_and_repeats(void **state)
{
	static const int32_t lengths[ROWS] = { 4, 2, 3 };
	static const int symbols[N] = { 0, 1, 1, 1, 2, 2, 2, O, 0, 0, O, O }, next[N] = { 1, 2, 2, 2, 0, 0, 0, O, 1, 1, O, O };
	const struct model_batch batch = { ROWS, STEPS, lengths, symbols, next };
	const struct model_shape wide = { SYMBOLS, 12, ROWS, STEPS, NULL };
	struct model m = opened(wide, 1), again = opened(wide, 1);
	int samples[12];
	double before = loss_of(&m, &batch), loss = before;

	(void)state;
	for (int step = 0; step < 150; step++) {
		model_reset(&m, MODEL_LEARNT);
		model_reset(&again, MODEL_LEARNT);
		loss = grad_of(&m, &batch);
		assert_true(loss == grad_of(&again, &batch));
		model_learn(&m, 0.05);
		model_learn(&again, 0.05);
	}
	assert_true(before > 1);
	assert_true(loss < 0.05);
	assert_int_equal(model_sample(&m, 9, 0.2, 0, samples, 12), CG_OK);
	for (int k = 0; k < 12; k++)
		assert_int_equal(samples[k], (k + 1) % 3);
	model_close(&m);
	model_close(&again);
}

static void test_samples(void **state)
{
	struct model m = opened(shape, 1);
	int samples[200], same[200], other[200], seen = 0;

	(void)state;
	assert_int_equal(model_sample(&m, 5, 1, 0, samples, 200), CG_OK);
	assert_int_equal(model_sample(&m, 5, 1, 0, same, 200), CG_OK);
	assert_int_equal(model_sample(&m, 6, 1, 0, other, 200), CG_OK);
	assert_memory_equal(samples, same, sizeof samples);
	assert_memory_not_equal(samples, other, sizeof samples);
	for (int k = 0; k < 200; k++) {
		assert_in_range(samples[k], 0, SYMBOLS - 1);
		seen |= 1 << samples[k];
	}
	assert_int_equal(seen, (1 << SYMBOLS) - 1);
	model_close(&m);
}

/* Adam's first step has the size of the rate, whatever the gradient's size; the step makes Adam's mean a tenth of the gradient, which is
   scaled down before to norm 1 if the gradient's norm is larger. */
static void learn_once(double each)
{
	struct model m = opened(shape, 1), before = opened(shape, 1);
	double sum = 0, norm = fmin(1, each * sqrt((double)m.n));

	for (size_t k = 0; k < m.n; k++)
		m.g[k] = k % 2 ? each : -each;
	model_learn(&m, 0.01);
	for (size_t k = 0; k < m.n; k++) {
		sum += m.mean[k] * m.mean[k] / (0.1 * 0.1);
		assert_true(fabs(before.p[k] - m.p[k] - (k % 2 ? 0.01 : -0.01)) < 1e-6);
	}
	assert_true(fabs(sqrt(sum) - norm) < 1e-9);
	model_close(&m);
	model_close(&before);
}

static void test_optimiser(void **state)
{
	(void)state;
	learn_once(3);
	learn_once(0.01);
}

static void test_no_memory(void **state)
{
	struct model m;
	size_t n = 1;
	int code;

	(void)state;
	for (;; n++) {
		cg_memory_fail(n);
		code = model_open(&m, context, shape, 1);
		model_close(&m);
		if (cg_memory_fail(0) < n)
			break;
		assert_int_equal(code, CG_NO_MEMORY);
	}
	assert_int_equal(code, CG_OK);
	assert_true(n > 2);
}

/* ---- the text ---- */

static struct text text_of(const char *characters)
{
	struct text t;

	if (text_open(&t, characters))
		fail_msg("%s", cg_message());
	return t;
}

static void test_text(void **state)
{
	struct text t = text_of("the cat\nsat on a mat"), none;

	(void)state;
	assert_int_equal(t.n, 20);
	assert_int_equal(t.held_out, 2);
	assert_int_equal(t.symbols, 11);
	assert_int_equal(text_symbol(&t, 'z'), -1);
	for (size_t k = 0; k < t.n; k++)
		assert_int_equal(t.letter[t.symbol[k]], "the cat\nsat on a mat"[k]);
	text_close(&t);
	assert_int_equal(text_open(&none, "caf\xc3\xa9"), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "character 3: expected printable ASCII or a line's end, got byte 195"));
	text_close(&none);
}

/* Expects that the rows of a text's next batch read the letters `expected`, and that the letters to predict are those that follow. */
static void batch_is(const struct text *t, struct text_row *row, const char *const *expected)
{
	int symbols[2 * 5], next[2 * 5];
	int32_t lengths[2];
	const struct text_row before[2] = { row[0], row[1] };
	size_t longest = 0;
	int steps = text_next_batch(t, row, 2, 5, lengths, symbols, next);

	for (int r = 0; r < 2; r++) {
		assert_int_equal(lengths[r], strlen(expected[r]));
		size_t at = before[r].at, after = at + strlen(expected[r]);

		assert_int_equal(row[r].at, after == row[r].end ? row[r].again : after);
		for (int s = 0; s < lengths[r]; s++) {
			assert_int_equal(t->letter[symbols[s * 2 + r]], expected[r][s]);
			assert_int_equal(next[s * 2 + r], t->symbol[at + (size_t)s + 1]);
		}
		longest = longest < strlen(expected[r]) ? strlen(expected[r]) : longest;
	}
	assert_int_equal(steps, longest);
}

/* Of 27 characters for training 26 are in the rows; the last one is only a successor. If text_rows() gets round = 1, a row
 * that has ended goes on at the beginning of the other row. */
static void test_batches(void **state)
{
	static const char *const parts[][2] = {
		{ "a\n\n", "ijklm" }, { "bc\n", "n\n" }, { "defgh", "o\n\n" }, { "i\n", "pqr" }, { "", "" }
	};
	static const char *const round[][2] = {
		{ "a\n\n", "ijklm" }, { "bc\n", "n\n" }, { "defgh", "o\n\n" }, { "i\n", "pqr" }, { "ijklm", "a\n\n" }, { "n\n", "bc\n" }
	};
	struct text t = text_of("a\n\nbc\ndefghi\nijklmn\no\n\npqrst\n");
	struct text_row row[2];

	(void)state;
	assert_int_equal(text_held_out(&t).first, 27);
	assert_int_equal(text_held_out(&t).n, 2);
	text_rows(text_to_learn(&t), 2, 0, row);
	assert_int_equal(row[0].end, row[1].at);
	for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
		batch_is(&t, row, parts[k]);
	text_rows(text_held_out(&t), 2, 0, row);
	assert_int_equal(row[1].end, t.n - 1);
	text_rows(text_to_learn(&t), 2, 1, row);
	for (size_t k = 0; k < sizeof round / sizeof *round; k++)
		batch_is(&t, row, round[k]);
	text_close(&t);
}

static void test_pairs(void **state)
{
	/* After a come b and c twice each, after b and c always a, so half of the pairs have an entropy of one bit, and the others of 0. */
	struct text t = text_of("abacabaca");
	double sum = 0;

	(void)state;
	assert_true(fabs(text_pair_entropy(&t) - 0.5) < 1e-12);
	text_close(&t);
	t = text_of("abcabcabcabc");
	assert_true(text_pair_entropy(&t) == 0);
	text_close(&t);
	/* The probabilities of all possible last characters add up to one. */
	for (const char *last = "abcd"; *last; last++) {
		char characters[] = "abacabcda?";

		characters[9] = *last;
		t = text_of(characters);
		assert_int_equal(t.held_out, 1);
		sum += exp2(-text_pair_loss(&t));
		text_close(&t);
	}
	assert_true(fabs(sum - 1) < 1e-12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gradient), cmocka_unit_test(test_gradient_twice),
		cmocka_unit_test(test_batches_in_turn_are_one_batch), cmocka_unit_test(test_rows_are_apart),
		cmocka_unit_test(test_other_text_and_samples_leave_the_carry), cmocka_unit_test(test_dropout),
		cmocka_unit_test(test_moved_to_another_device),
		cmocka_unit_test(test_seed), cmocka_unit_test(test_learns_and_repeats), cmocka_unit_test(test_samples),
		cmocka_unit_test(test_optimiser), cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_text), cmocka_unit_test(test_batches), cmocka_unit_test(test_pairs)
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("model", tests, open_context, close_context);
}
