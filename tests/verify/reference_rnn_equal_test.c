/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that calls of the CudnnRNN family's reference agree where the meaning of the op says so: chunks and the whole, both directions,
 * one row and many, layouts, lengths, options with the same effect. Known numbers are in reference_rnn_test.c.
 */
#include "tests/verify/sequence_arrays.h"

static const char *const mode_name[] = { [REF_LSTM] = "lstm", [REF_GRU] = "gru", [REF_RNN_TANH] = "rnn_tanh",
	[REF_RNN_RELU] = "rnn_relu" };

static void run(void)
{
	assert_int_equal(ref_rnn_forward(&R), 0);
	assert_int_equal(ref_rnn_backward(&R), 0);
}

static long double kept[RNN_ARRAYS][MAX];

static void keep(void)
{
	for (int a = 0; a < RNN_ARRAYS; a++)
		memcpy(kept[a], at[a].v, sizeof(kept[a]));
}

/* Fails the test unless element n of array a equals `want` within 1e-15 (1 + |want|). */
static void agree(int a, int64_t n, long double want, const char *what)
{
	if (!(fabsl(at[a].v[n] - want) <= 1e-15L * (1 + fabsl(want))))
		fail_msg("%s, %s: %s[%d] is %.15Lg, not %.15Lg", mode_name[R.mode], what, at[a].name, (int)n, at[a].v[n], want);
}

static void agree_all(int a, const char *what)
{
	for (int64_t n = 0; n < at[a].n; n++)
		agree(a, n, kept[a][n], what);
}

static const int written[] = { RNN_output, RNN_output_h, RNN_output_c, RNN_input_backprop, RNN_input_h_backprop,
	RNN_input_c_backprop, RNN_params_backprop };
enum { WRITTEN = sizeof(written) / sizeof(*written) };

static void poison(void)
{
	for (int j = 0; j < WRITTEN; j++)
		for (int64_t n = 0; n < at[written[j]].n; n++)
			at[written[j]].v[n] = NAN;
}

static int not_of_mode(int a)
{
	return R.mode != REF_LSTM && (a == RNN_output_c || a == RNN_input_c_backprop);
}

/* A call for the first steps and one for the rest, from the final states of the first, equal one call for all steps: the outputs are the
   same, and the weight gradients add up. */
static void test_chunks(void **state)
{
	static long double first[RNN_ARRAYS][MAX];
	int64_t T = 5, cut, row;

	(void)state;
	for (int mode = REF_LSTM; mode <= REF_RNN_RELU; mode++) {
		for (cut = 0; cut <= T; cut++) {
			R = (struct ref_rnn){ .mode = mode, .dtype = REF_F64, .T = T, .B = 2, .I = 2, .U = 3, .L = 2, .time_major = 1,
				.is_training = 1, .dropout = 0.4, .key = 12, .P = mode == REF_LSTM ? 2 : 0, .peephole = mode == REF_LSTM };
			bind_rnn(1);
			draw(1);
			run();
			keep();
			row = R.B * (R.P ? R.P : R.U);

			R.T = cut;
			bind_rnn(1);
			poison();
			assert_int_equal(ref_rnn_forward(&R), 0);
			for (int64_t n = 0; n < at[RNN_output].n; n++)
				agree(RNN_output, n, kept[RNN_output][n], "first piece");
			for (int a = 0; a < RNN_ARRAYS; a++)
				memcpy(first[a], at[a].v, sizeof(first[a]));

			R.T = T - cut;
			R.first_step = cut;
			bind_rnn(1);
			memcpy(at[RNN_input].v, kept[RNN_input] + cut * R.B * R.I, at[RNN_input].n * sizeof(long double));
			memcpy(at[RNN_output_backprop].v, kept[RNN_output_backprop] + cut * row,
				at[RNN_output_backprop].n * sizeof(long double));
			memcpy(at[RNN_input_h].v, first[RNN_output_h], at[RNN_input_h].n * sizeof(long double));
			memcpy(at[RNN_input_c].v, first[RNN_output_c], at[RNN_input_c].n * sizeof(long double));
			poison();
			run();
			for (int64_t n = 0; n < at[RNN_output].n; n++)
				agree(RNN_output, n, kept[RNN_output][cut * row + n], "second piece");
			for (int64_t n = 0; n < at[RNN_input_backprop].n; n++)
				agree(RNN_input_backprop, n, kept[RNN_input_backprop][cut * R.B * R.I + n], "second piece");
			agree_all(RNN_output_h, "second piece");
			if (mode == REF_LSTM)
				agree_all(RNN_output_c, "second piece");

			/* the second chunk's gradients of its initial states are upstream gradients of the first's final states, and the first
			   chunk adds its weight gradients to those of the second */
			memcpy(at[RNN_output_h_backprop].v, at[RNN_input_h_backprop].v, sizeof(at[0].v));
			memcpy(at[RNN_output_c_backprop].v, at[RNN_input_c_backprop].v, sizeof(at[0].v));
			memcpy(at[RNN_params_backprop_old].v, at[RNN_params_backprop].v, sizeof(at[0].v));
			memcpy(at[RNN_input].v, kept[RNN_input], sizeof(at[0].v));
			memcpy(at[RNN_input_h].v, kept[RNN_input_h], sizeof(at[0].v));
			memcpy(at[RNN_input_c].v, kept[RNN_input_c], sizeof(at[0].v));
			memcpy(at[RNN_output_backprop].v, kept[RNN_output_backprop], sizeof(at[0].v));
			R.T = cut;
			R.first_step = 0;
			R.accumulate = 1;
			bind_rnn(1);
			poison();
			run();
			agree_all(RNN_params_backprop, "both pieces");
			agree_all(RNN_input_h_backprop, "first piece");
			for (int64_t n = 0; n < at[RNN_input_backprop].n; n++)
				agree(RNN_input_backprop, n, kept[RNN_input_backprop][n], "first piece");
		}
	}
}

/* Sets up a model of a mode with random numbers; bits of c choose its options. */
static void model(int mode, int c)
{
	R = (struct ref_rnn){ .mode = mode, .dtype = REF_F64, .T = 4, .B = 3, .I = 2, .U = 3, .L = 1 + (c & 1),
		.bidirectional = c >> 1 & 1, .time_major = 1, .is_training = 1, .peephole = c >> 2 & 1,
		.P = mode == REF_LSTM && c >> 3 & 1 ? 2 : 0 };
	if (c >> 4 & 1)
		draw_lengths();
	bind_rnn(1);
	draw(1);
}

#define EVERY_MODEL(mode, c) \
	for (int mode = REF_LSTM; mode <= REF_RNN_RELU; mode++) \
		for (int c = 0; c < 32; c++)

/* Reverses the steps of each row within its length. */
static void reverse(long double *to, const long double *from, int64_t width)
{
	for (int64_t b = 0; b < R.B; b++) {
		int64_t n = R.lengths ? R.lengths[b] : R.T;

		for (int64_t t = 0; t < R.T; t++)
			for (int64_t j = 0; j < width; j++)
				to[((t < n ? n - 1 - t : t) * R.B + b) * width + j] = from[(t * R.B + b) * width + j];
	}
}

/* Copies the params of one pseudo-layer of a bidirectional model to the params of a model of one layer and direction. */
static void copy_regions(long double *to, const struct ref_rnn *one, const long double *from, const struct ref_rnn *two,
	int64_t pseudo_layer)
{
	for (int part = REF_WEIGHT; part <= REF_VECTOR; part++) {
		for (int id = 0; id < 16; id++) {
			struct ref_region r = ref_rnn_region(one, 0, id, part), q = ref_rnn_region(two, pseudo_layer, id, part);

			memcpy(to + r.offset, from + q.offset, r.rows * r.columns * sizeof(*to));
		}
	}
}

/* Copies direction d's half of a bidirectional sequence. */
static void copy_half(long double *to, const long double *from, int64_t rows, int64_t width, int64_t d)
{
	for (int64_t n = 0; n < rows * width; n++)
		to[n] = from[(n / width * 2 + d) * width + n % width];
}

/* Each direction of a bidirectional layer equals a model of one direction, which for the second direction gets the steps in reverse; both
 * gradients of input add up. */
static void directions(void **state)
{
	static long double half[MAX], want[MAX], dx[MAX];
	static const int states[] = { RNN_input_h, RNN_input_c, RNN_output_h_backprop, RNN_output_c_backprop };
	static const int left[] = { RNN_output_h, RNN_output_c, RNN_input_h_backprop, RNN_input_c_backprop };

	(void)state;
	EVERY_MODEL(mode, c) {
		struct ref_rnn two;

		model(mode, c | 2);
		R.L = 1;
		bind_rnn(1);
		run();
		keep();
		two = R;
		memset(dx, 0, sizeof(dx));
		for (int64_t d = 0; d < 2; d++) {
			int64_t H = R.P ? R.P : R.U;

			R.bidirectional = 0;
			bind_rnn(1);
			copy_regions(at[RNN_params].v, &R, kept[RNN_params], &two, d);
			memcpy(half, kept[RNN_input], sizeof(half));
			if (d)
				reverse(half, kept[RNN_input], R.I);
			memcpy(at[RNN_input].v, half, sizeof(half));
			copy_half(half, kept[RNN_output_backprop], R.T * R.B, H, d);
			memcpy(at[RNN_output_backprop].v, half, sizeof(half));
			if (d)
				reverse(at[RNN_output_backprop].v, half, H);
			for (int j = 0; j < 4; j++)
				memcpy(at[states[j]].v, kept[states[j]] + d * at[states[j]].n, at[states[j]].n * sizeof(long double));
			poison();
			run();

			copy_half(half, kept[RNN_output], R.T * R.B, H, d);
			memcpy(want, half, sizeof(want));
			if (d)
				reverse(want, half, H);
			for (int64_t n = 0; n < at[RNN_output].n; n++)
				agree(RNN_output, n, want[n], "one direction");
			copy_regions(want, &R, kept[RNN_params_backprop], &two, d);
			for (int64_t n = 0; n < at[RNN_params_backprop].n; n++)
				agree(RNN_params_backprop, n, want[n], "one direction");
			for (int j = 0; j < 4; j++)
				for (int64_t n = 0; n < at[left[j]].n && !not_of_mode(left[j]); n++)
					agree(left[j], n, kept[left[j]][d * at[left[j]].n + n], "one direction");
			memcpy(half, at[RNN_input_backprop].v, sizeof(half));
			if (d)
				reverse(half, at[RNN_input_backprop].v, R.I);
			for (int64_t n = 0; n < at[RNN_input_backprop].n; n++)
				dx[n] += half[n];
			R = two;
		}
		for (int64_t n = 0; n < at[RNN_input_backprop].n; n++) {
			at[RNN_input_backprop].v[n] = dx[n];
			agree(RNN_input_backprop, n, kept[RNN_input_backprop][n], "both directions");
		}
	}
}

/* Copies the elements [.., b, ..] of an array [rows, of, width]. */
static void copy_row(long double *to, const long double *from, int64_t rows, int64_t of, int64_t b, int64_t width)
{
	for (int64_t n = 0; n < rows * width; n++)
		to[n] = from[(n / width * of + b) * width + n % width];
}

static int is_params(int a)
{
	return a == RNN_params || a == RNN_params_backprop || a == RNN_params_backprop_old;
}

/* Each row of a batch, computed alone, has the answers that it has in the batch, and the weight gradients of all rows add up. */
static void rows_alone(void **state)
{
	static long double want[MAX];

	(void)state;
	EVERY_MODEL(mode, c) {
		int64_t B, D;

		model(mode, c);
		run();
		keep();
		B = R.B;
		D = 1 + R.bidirectional;
		for (int64_t b = 0; b < B; b++) {
			int64_t width[RNN_ARRAYS], rows[RNN_ARRAYS];

			R.B = 1;
			R.lengths = R.lengths ? lengths + b : NULL;
			R.accumulate = b > 0;
			bind_rnn(1);
			for (int a = 0; a < RNN_ARRAYS; a++) {
				int of_states = a == RNN_input_h || a == RNN_input_c || a == RNN_output_h || a == RNN_output_c ||
					a == RNN_output_h_backprop || a == RNN_output_c_backprop || a == RNN_input_h_backprop ||
					a == RNN_input_c_backprop;

				rows[a] = of_states ? R.L * D : R.T;
				width[a] = at[a].n / rows[a];
				if (!at[a].is_out && !is_params(a))
					copy_row(at[a].v, kept[a], rows[a], B, b, width[a]);
			}
			memcpy(at[RNN_params_backprop_old].v, at[RNN_params_backprop].v, sizeof(at[0].v));
			poison();
			run();
			for (int a = 0; a < RNN_ARRAYS; a++) {
				if (!at[a].is_out || is_params(a) || not_of_mode(a))
					continue;
				copy_row(want, kept[a], rows[a], B, b, width[a]);
				for (int64_t n = 0; n < at[a].n; n++)
					agree(a, n, want[n], "one row");
			}
		}
		agree_all(RNN_params_backprop, "all rows");
	}
}

/* The same sequences and states in batch-major order give the same outputs and gradients, in that order. */
static void batch_major(void **state)
{
	static long double want[MAX];

	(void)state;
	EVERY_MODEL(mode, c) {
		model(mode, c);
		if (R.L > 1)
			R.dropout = 0.5;
		run();
		keep();
		R.time_major = 0;
		bind_rnn(1);
		for (int pass = 0; pass < 2; pass++) {
			for (int a = 0; a < RNN_ARRAYS; a++) {
				int64_t sequence = at[a].n == R.T * R.B * R.I || at[a].n == at[RNN_output].n;
				int64_t rows = sequence ? R.T : R.L * (1 + R.bidirectional), width = at[a].n / rows / R.B;

				if (is_params(a) || not_of_mode(a)) {
					memcpy(want, kept[a], sizeof(want));
				} else {
					for (int64_t n = 0; n < at[a].n; n++) {
						int64_t j = n % width, b = n / width % R.B, r = n / width / R.B;

						want[(b * rows + r) * width + j] = kept[a][n];
					}
				}
				if (pass == 0 && !at[a].is_out)
					memcpy(at[a].v, want, sizeof(want));
				for (int64_t n = 0; n < at[a].n && pass && at[a].is_out && !not_of_mode(a); n++)
					agree(a, n, want[n], "batch first");
			}
			if (pass == 0) {
				poison();
				run();
			}
		}
	}
}

static void agree_outputs(const char *what)
{
	for (int j = 0; j < WRITTEN; j++)
		if (!not_of_mode(written[j]))
			agree_all(written[j], what);
}

/* Lengths of T equal no lengths; absent states and absent upstream gradients of output and output_h equal zeros; auto_select equals the
 * input mode that auto_select selects. */
static void test_other_layouts(void **state)
{
	static const struct ref_in absent;

	(void)state;
	EVERY_MODEL(mode, c) {
		model(mode, c & 15);
		memset(at[RNN_input_h].v, 0, sizeof(at[0].v));
		memset(at[RNN_input_c].v, 0, sizeof(at[0].v));
		memset(at[RNN_output_h_backprop].v, 0, sizeof(at[0].v));
		if (c & 16)
			memset(at[RNN_output_backprop].v, 0, sizeof(at[0].v));
		run();
		keep();
		for (int64_t b = 0; b < R.B; b++)
			lengths[b] = (int32_t)R.T;
		R.lengths = lengths;
		R.input_h = R.input_c = R.output_h_backprop = absent;
		if (c & 16)
			R.output_backprop = absent;
		R.input_mode = REF_AUTO;                /* auto_select selects linear, as I is not equal to U */
		poison();
		run();
		agree_outputs("lengths of T, absent states");

		R.I = R.U;
		R.input_mode = REF_SKIP;
		bind_rnn(1);
		draw(1);
		run();
		keep();
		R.input_mode = REF_AUTO;
		poison();
		run();
		agree_outputs("auto_select");
	}
}

/* skip_input equals input matrices of the first layer that are unit matrices; no peepholes equal peepholes of 0. */
static void zeros_and_ones(void **state)
{
	(void)state;
	EVERY_MODEL(mode, c) {
		struct ref_rnn plain;

		model(mode, c);
		R.I = R.U;
		R.input_mode = REF_SKIP;
		R.peephole = 0;
		bind_rnn(1);
		draw(1);
		run();
		keep();
		plain = R;
		R.input_mode = REF_LINEAR;
		R.peephole = 1;
		bind_rnn(1);
		memset(at[RNN_params].v, 0, sizeof(at[0].v));
		for (int64_t l = 0; l < R.L * (1 + R.bidirectional); l++) {
			for (int part = REF_WEIGHT; part <= REF_BIAS; part++) {
				for (int id = 0; id < 9; id++) {
					struct ref_region r = ref_rnn_region(&R, l, id, part), q = ref_rnn_region(&plain, l, id, part);

					for (int64_t n = 0; n < r.rows * r.columns; n++)
						at[RNN_params].v[r.offset + n] = q.rows ? kept[RNN_params][q.offset + n] :
							n / r.columns == n % r.columns;
				}
			}
		}
		poison();
		run();
		for (int j = 0; j < WRITTEN; j++)
			if (!not_of_mode(written[j]) && written[j] != RNN_params_backprop)
				agree_all(written[j], "unit matrices");
		for (int64_t l = 0; l < R.L * (1 + R.bidirectional); l++) {
			for (int part = REF_WEIGHT; part <= REF_BIAS; part++) {
				for (int id = 0; id < 9; id++) {
					struct ref_region r = ref_rnn_region(&R, l, id, part), q = ref_rnn_region(&plain, l, id, part);

					for (int64_t n = 0; n < q.rows * q.columns; n++)
						agree(RNN_params_backprop, r.offset + n, kept[RNN_params_backprop][q.offset + n], "unit matrices");
				}
			}
		}
	}
}

/* The gradient is linear in the upstream gradients. */
static void linear(void **state)
{
	static const int up[] = { RNN_output_backprop, RNN_output_h_backprop, RNN_output_c_backprop };
	static long double first[RNN_ARRAYS][MAX];

	(void)state;
	EVERY_MODEL(mode, c) {
		model(mode, c);
		R.dropout = 0.3;
		run();
		for (int a = 0; a < RNN_ARRAYS; a++)
			memcpy(first[a], at[a].v, sizeof(first[a]));
		for (int j = 0; j < 3; j++)
			for (int64_t n = 0; n < at[up[j]].n; n++)
				at[up[j]].v[n] = uniform();
		run();
		keep();
		for (int j = 0; j < 3; j++)
			for (int64_t n = 0; n < at[up[j]].n; n++)
				at[up[j]].v[n] = 2 * first[up[j]][n] - 3 * kept[up[j]][n];
		poison();
		run();
		for (int j = 3; j < WRITTEN; j++)
			for (int64_t n = 0; n < at[written[j]].n && !not_of_mode(written[j]); n++)
				agree(written[j], n, 2 * first[written[j]][n] - 3 * kept[written[j]][n], "linearity");
	}
}

/* The padding of input and output_backprop has no effect, and the padding of output is zero. */
static void padding(void **state)
{
	(void)state;
	EVERY_MODEL(mode, c) {
		model(mode, c | 16);
		run();
		keep();
		for (int64_t b = 0; b < R.B; b++) {
			for (int64_t t = lengths[b]; t < R.T; t++) {
				int64_t width = at[RNN_output].n / R.T / R.B;

				for (int64_t j = 0; j < R.I; j++)
					at[RNN_input].v[(t * R.B + b) * R.I + j] = NAN;
				for (int64_t j = 0; j < width; j++)
					at[RNN_output_backprop].v[(t * R.B + b) * width + j] = INFINITY;
			}
		}
		poison();
		run();
		agree_outputs("padding");
		for (int64_t b = 0; b < R.B; b++) {
			for (int64_t n = 0; n < at[RNN_output].n; n++) {
				int64_t width = at[RNN_output].n / R.T / R.B;

				if (n / width % R.B == b && n / width / R.B >= lengths[b])
					assert_true(at[RNN_output].v[n] == 0 && at[RNN_output].e[n] == 0);
			}
		}
	}
}

/* With length 0 in all rows, without steps or without rows, the final states equal the initial states, and their gradients are equal, too;
   params_backprop is zeros or the old values, and output and input_backprop are zeros. */
static void nothing_to_do(void **state)
{
	static const struct { int from, to; } pass[] = { { RNN_input_h, RNN_output_h }, { RNN_input_c, RNN_output_c },
		{ RNN_output_h_backprop, RNN_input_h_backprop }, { RNN_output_c_backprop, RNN_input_c_backprop } };

	(void)state;
	EVERY_MODEL(mode, c) {
		for (int how = 0; how < 6; how++) {
			model(mode, c);
			R.dtype = how & 1 ? REF_F16 : REF_F64;
			R.accumulate = c & 1;
			for (int64_t b = 0; b < R.B; b++)
				lengths[b] = 0;
			R.lengths = how / 2 == 0 ? lengths : NULL;
			R.T = how / 2 == 1 ? 0 : R.T;
			R.B = how / 2 == 2 ? 0 : R.B;
			bind_rnn(0);
			draw(1);
			poison();
			run();
			for (int j = 0; j < 4; j++)
				for (int64_t n = 0; n < at[pass[j].to].n && !not_of_mode(pass[j].to); n++)
					assert_true(at[pass[j].to].v[n] == at[pass[j].from].d[n] && at[pass[j].to].e[n] == 0);
			for (int64_t n = 0; n < at[RNN_params_backprop].n; n++)
				assert_true(at[RNN_params_backprop].v[n] == R.accumulate * at[RNN_params_backprop_old].d[n] &&
					at[RNN_params_backprop].e[n] == 0);
			for (int64_t n = 0; n < at[RNN_output].n; n++)
				assert_true(at[RNN_output].v[n] == 0);
			for (int64_t n = 0; n < at[RNN_input_backprop].n; n++)
				assert_true(at[RNN_input_backprop].v[n] == 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(directions),
		cmocka_unit_test(rows_alone),
		cmocka_unit_test(batch_major),
		cmocka_unit_test(test_other_layouts),
		cmocka_unit_test(zeros_and_ones),
		cmocka_unit_test(linear),
		cmocka_unit_test(padding),
		cmocka_unit_test(nothing_to_do),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
