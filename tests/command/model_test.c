/*
 * The demo's model, built in double: its gradient against differences of its loss, what it carries, what it learns, its
 * optimiser; and the text it is given.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/command/model.h"
#include "runtime/command/text.h"
#include "runtime/runtime.h"

enum { SYMBOLS = 5, UNITS = 3, ROWS = 2, STEPS = 4, N = ROWS * STEPS };
static const struct model_shape shape = { SYMBOLS, UNITS, ROWS, STEPS };

/* Two pieces of [T B], the symbols of one row in one column, and what follows. */
static const int first[N] = { 0, 3, 2, 1, 4, 4, 1, 0 }, first_next[N] = { 2, 1, 4, 4, 1, 0, 3, 2 };
static const int second[N] = { 3, 2, 0, 1, 2, 4, 4, 3 }, second_next[N] = { 0, 1, 2, 4, 4, 3, 1, 0 };

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

static double loss_of(struct model *m, const int *symbols, const int *next)
{
	double loss;

	if (model_loss(m, MODEL_LEARNT, symbols, next, &loss))
		fail_msg("%s", cg_message());
	return loss;
}

static double grad_of(struct model *m, const int *symbols, const int *next)
{
	double loss;

	if (model_grad(m, MODEL_LEARNT, symbols, next, &loss))
		fail_msg("%s", cg_message());
	return loss;
}

/* ---- the gradient ---- */

/* What the first piece left is carried into the second, and is a constant there. */
struct carried { real h[ROWS * UNITS], cs[ROWS * UNITS]; };

static void put_back(struct model *m, const struct carried *c)
{
	memcpy(m->carry[MODEL_LEARNT].h, c->h, sizeof c->h);
	memcpy(m->carry[MODEL_LEARNT].cs, c->cs, sizeof c->cs);
}

static double difference(struct model *m, const struct carried *c, size_t k, double h)
{
	double p = m->p[k], up, down;

	m->p[k] = p + h;
	put_back(m, c);
	up = loss_of(m, second, second_next);
	m->p[k] = p - h;
	put_back(m, c);
	down = loss_of(m, second, second_next);
	m->p[k] = p;
	return (up - down) / (2 * h);
}

/* Central differences at h and h/2: together exact to the fourth order, and what they differ by bounds the error of that.
 * What rounding adds is a few units in the last place of the loss over h. */
static void test_gradient(void **state)
{
	struct model m = opened(shape, 7);
	struct carried carried;
	const double h = 1e-3, rounding = 64 * DBL_EPSILON / h;
	double worst = 0;

	(void)state;
	loss_of(&m, first, first_next);
	memcpy(carried.h, m.carry[MODEL_LEARNT].h, sizeof carried.h);
	memcpy(carried.cs, m.carry[MODEL_LEARNT].cs, sizeof carried.cs);
	for (size_t k = 0; k < m.n; k++)
		m.g[k] = NAN;                                    /* overwritten, not added to */
	grad_of(&m, second, second_next);
	for (int part = 0; part < MODEL_PARTS; part++) {
		double largest = 0;

		for (size_t k = m.at[part]; k < m.at[part + 1]; k++) {
			double wide = difference(&m, &carried, k, h), narrow = difference(&m, &carried, k, h / 2);
			double right = (4 * narrow - wide) / 3, allowed = fabs(wide - narrow) + rounding;

			if (!(fabs(m.g[k] - right) <= allowed))
				fail_msg("part %d, weight %zu: gradient %.12g, by differences %.12g, allowed %.2g", part,
				         k - m.at[part], m.g[k], right, allowed);
			worst = fmax(worst, fabs(m.g[k] - right) / allowed);
			largest = fmax(largest, fabs(m.g[k]));
		}
		assert_true(largest > 1e-3);                     /* there was something to get wrong */
	}
	print_message("# gradient: %zu weights, %.2g of what is allowed\n", m.n, worst);
	model_close(&m);
}

static void test_gradient_twice(void **state)
{
	struct model m = opened(shape, 7), other = opened(shape, 7);

	(void)state;
	grad_of(&m, first, first_next);
	model_rest(&m, MODEL_LEARNT);
	grad_of(&m, first, first_next);
	grad_of(&other, first, first_next);
	assert_memory_equal(m.g, other.g, m.n * sizeof *m.g);
	model_close(&m);
	model_close(&other);
}

/* ---- what is carried ---- */

static void test_pieces_are_the_whole(void **state)
{
	const struct model_shape half = { SYMBOLS, UNITS, ROWS, STEPS / 2 };
	struct model whole = opened(shape, 3), pieces = opened(half, 3);
	double in_one = loss_of(&whole, first, first_next);
	double in_two = (loss_of(&pieces, first, first_next) + loss_of(&pieces, first + N / 2, first_next + N / 2)) / 2;

	(void)state;
	assert_true(fabs(in_one - in_two) <= 16 * DBL_EPSILON * in_one);
	assert_memory_equal(whole.carry[MODEL_LEARNT].cs, pieces.carry[MODEL_LEARNT].cs, ROWS * UNITS * sizeof(real));
	model_rest(&pieces, MODEL_LEARNT);
	in_two = (in_two + loss_of(&pieces, first + N / 2, first_next + N / 2)) / 2;
	assert_true(fabs(in_one - in_two) > 1e-6);               /* and it matters */
	model_close(&whole);
	model_close(&pieces);
}

static void test_other_text_and_samples_leave_the_carry(void **state)
{
	struct model m = opened(shape, 3), other = opened(shape, 3);
	int symbols[40];
	double loss;

	(void)state;
	loss_of(&m, first, first_next);
	loss_of(&other, first, first_next);
	assert_int_equal(model_loss(&m, MODEL_OTHER, second, second_next, &loss), CG_OK);
	assert_int_equal(model_sample(&m, 1, 1, 0, symbols, 40), CG_OK);
	assert_true(loss_of(&m, second, second_next) == loss_of(&other, second, second_next));
	model_close(&m);
	model_close(&other);
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
	static const int symbols[N] = { 0, 1, 1, 2, 2, 0, 0, 1 }, next[N] = { 1, 2, 2, 0, 0, 1, 1, 2 };
	struct model m = opened(shape, 1), again = opened(shape, 1);
	int said[12];
	double before = loss_of(&m, symbols, next), loss = before;

	(void)state;
	for (int step = 0; step < 150; step++) {
		model_rest(&m, MODEL_LEARNT);
		model_rest(&again, MODEL_LEARNT);
		loss = grad_of(&m, symbols, next);
		assert_true(loss == grad_of(&again, symbols, next));
		model_learn(&m, 0.05);
		model_learn(&again, 0.05);
	}
	assert_true(before > 1);
	assert_true(loss < 0.05);
	assert_int_equal(model_sample(&m, 9, 0.2, 0, said, 12), CG_OK);
	for (int k = 0; k < 12; k++)
		assert_int_equal(said[k], (k + 1) % 3);
	model_close(&m);
	model_close(&again);
}

static void test_samples(void **state)
{
	struct model m = opened(shape, 1);
	int said[200], same[200], other[200], seen = 0;

	(void)state;
	assert_int_equal(model_sample(&m, 5, 1, 0, said, 200), CG_OK);
	assert_int_equal(model_sample(&m, 5, 1, 0, same, 200), CG_OK);
	assert_int_equal(model_sample(&m, 6, 1, 0, other, 200), CG_OK);
	assert_memory_equal(said, same, sizeof said);
	assert_memory_not_equal(said, other, sizeof said);
	for (int k = 0; k < 200; k++) {
		assert_in_range(said[k], 0, SYMBOLS - 1);
		seen |= 1 << said[k];
	}
	assert_int_equal(seen, (1 << SYMBOLS) - 1);
	model_close(&m);
}

/* The first step of Adam goes by the rate, whatever the gradient's size; its average holds the gradient, cut to norm 1. */
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
	assert_non_null(strstr(cg_message(), "character 3: expected ASCII, got byte 195"));
	text_close(&none);
}

/* 36 characters to learn from are 2 rows of 17 and what follows each. */
static void test_pieces(void **state)
{
	struct text t = text_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn");
	int symbols[10], next[10];

	(void)state;
	assert_int_equal(text_held_out(&t).first, 36);
	assert_int_equal(text_held_out(&t).n, 4);
	for (int k = 0; k < 3; k++) {
		assert_true(text_piece(&t, text_to_learn(&t), k, 2, 5, symbols, next));
		for (int at = 0; at < 10; at++) {
			int place = at % 2 * 17 + k * 5 + at / 2;

			assert_int_equal(t.letter[symbols[at]], t.letter[place]);
			assert_int_equal(t.letter[next[at]], t.letter[place + 1]);
		}
	}
	assert_false(text_piece(&t, text_to_learn(&t), 3, 2, 5, symbols, next));
	assert_false(text_piece(&t, text_held_out(&t), 0, 2, 2, symbols, next));
	assert_true(text_piece(&t, text_held_out(&t), 0, 1, 3, symbols, next));
	assert_int_equal(t.letter[next[2]], 'n');
	text_close(&t);
}

static void test_pairs(void **state)
{
	/* After a: b twice, c twice; after b and c: a; so a choice of two in half of the pairs. */
	struct text t = text_of("abacabaca");
	double sum = 0;

	(void)state;
	assert_true(fabs(text_pair_entropy(&t) - 0.5) < 1e-12);
	text_close(&t);
	t = text_of("abcabcabcabc");
	assert_true(text_pair_entropy(&t) == 0);
	text_close(&t);
	/* The chances of all that can stand last add up to one. */
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
		cmocka_unit_test(test_pieces_are_the_whole), cmocka_unit_test(test_other_text_and_samples_leave_the_carry),
		cmocka_unit_test(test_seed), cmocka_unit_test(test_learns_and_repeats), cmocka_unit_test(test_samples),
		cmocka_unit_test(test_optimiser), cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_text), cmocka_unit_test(test_pieces), cmocka_unit_test(test_pairs)
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("model", tests, open_context, close_context);
}
