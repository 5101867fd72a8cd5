/*
 * Networks on whole sequences against the independent reference: models drawn at random, on the backend that CELLGRAD_BACKEND
 * names, each answer within its bound.
 */
#include "tests/conformance/numbers.h"
#include "tests/conformance/sequence_arrays.h"
#include "runtime/cellgrad.h"

static struct cg_context *context;
static struct cg_stream *stream;
static long double worst;
static const char *worst_name;

static const int dtypes[] = { CG_F32, CG_F64, CG_F16, CG_BF16 };

static size_t element(int dtype)
{
	return dtype == CG_F64 ? 8 : dtype == CG_F32 ? 4 : 2;
}

/* The library's memory for each array, with what is beyond it. */
static unsigned char bytes[RNN_ARRAYS][MAX * 8];

static struct cg_mem mem(int a, int is_given)
{
	struct cg_mem m = { .data = bytes[a], .bytes = (size_t)at[a].n * element(R.dtype) };

	return is_given && at[a].n ? m : (struct cg_mem){ .bytes = 0 };
}

static void encode(int a)
{
	for (int64_t n = 0; n < at[a].n; n++) {
		if (at[a].is_out)
			memset(bytes[a] + (size_t)n * element(R.dtype), 0xff, element(R.dtype));
		else
			numbers_encode(R.dtype, at[a].d[n], bytes[a] + (size_t)n * element(R.dtype));
	}
}

static void judge(int a)
{
	for (int64_t n = 0; n < at[a].n; n++) {
		double got = numbers_decode(R.dtype, bytes[a] + (size_t)n * element(R.dtype));
		long double allowed = ref_tolerance(R.dtype, at[a].v[n], at[a].e[n]), off = fabsl(got - at[a].v[n]);

		if (allowed > 0 && off / allowed > worst) {
			worst = off / allowed;
			worst_name = at[a].name;
		}
		if (!(off <= allowed)) {
			print_error("%s[%lld]: expected %Lg within %Lg, got %g\n", at[a].name, (long long)n, at[a].v[n], allowed, got);
			fail();
		}
	}
}

static void describe(void)
{
	print_error("mode %d dtype %d T %lld B %lld I %lld U %lld L %lld P %lld bidirectional %d input %d time_major %d training %d peephole %d "
	            "accumulate %d dropout %g lengths %d first %lld\n", R.mode, R.dtype, (long long)R.T, (long long)R.B, (long long)R.I,
	            (long long)R.U, (long long)R.L, (long long)R.P, R.bidirectional, R.input_mode, R.time_major, R.is_training, R.peephole,
	            R.accumulate, R.dropout, R.lengths != NULL, (long long)R.first_step);
}

static void model(void)
{
	static const double rates[] = { 0, 0, 0, 0.3, 0.5, 1 };

	memset(&R, 0, sizeof R);
	R.mode = below(4);
	R.dtype = dtypes[below(4)];
	R.T = below(6);
	R.B = below(5);
	R.I = 1 + below(5);
	R.U = 1 + below(5);
	R.L = 1 + below(3);
	R.bidirectional = below(2);
	R.input_mode = below(3);
	if (R.input_mode == REF_SKIP)
		R.I = R.U;
	R.time_major = below(3) > 0;
	R.is_training = below(4) > 0;
	R.peephole = R.mode == REF_LSTM && below(2);
	R.P = R.mode == REF_LSTM && below(2) ? 1 + below((int)R.U) : 0;
	R.accumulate = below(2);
	R.dropout = rates[below(6)];
	R.key = ref_dropout_key(87654321, -12345);
	R.call = 5;
	R.first_step = R.bidirectional ? 0 : below(3) * 7;
	if (below(2))
		draw_lengths();
}

static int run(void)
{
	static const char *const cells[] = { "lstm", "gru", "rnn_tanh", "rnn_relu" };
	static unsigned char reserve[1 << 20];
	struct cg_rnn_config c;
	struct cg_rnn_call k;
	struct cg_rnn_sizes sizes;
	struct cg_rnn *rnn;
	int state = R.mode == REF_LSTM, h = below(4) > 0, dh = below(4) > 0, dy = below(4) > 0;
	void *work;
	int code;

	cg_rnn_config_init(&c, sizeof c);
	c.cell = cg_cell_find(cells[R.mode]);
	c.options = R.peephole ? "peephole" : NULL;
	c.dtype = R.dtype;
	c.layers = (int)R.L;
	c.bidirectional = R.bidirectional;
	c.input_mode = R.input_mode;
	c.time_major = R.time_major;
	c.training = R.is_training;
	c.input = R.I;
	c.units = R.U;
	c.proj = R.P;
	c.dropout = R.dropout;
	c.seed = R.key;
	if (cg_rnn_open(context, &c, &rnn) || cg_rnn_sizes(rnn, R.T, R.B, R.lengths, &sizes))
		return print_error("%s\n", cg_message()), -1;
	assert_true(sizes.reserve <= sizeof reserve);
	assert_int_equal(sizes.params, (size_t)ref_rnn_size(&R) * element(R.dtype));
	work = malloc(sizes.work ? sizes.work : 1);
	memset(work, 0xff, sizes.work);
	memset(reserve, 0xff, sizeof reserve);

	if (!h)
		for (int64_t n = 0; n < MAX; n++)
			at[RNN_input_h].d[n] = at[RNN_input_c].d[n] = 0;
	if (!dh)
		for (int64_t n = 0; n < MAX; n++)
			at[RNN_output_h_backprop].d[n] = at[RNN_output_c_backprop].d[n] = 0;
	if (!dy)
		for (int64_t n = 0; n < MAX; n++)
			at[RNN_output_backprop].d[n] = 0;
	for (int a = 0; a < RNN_ARRAYS; a++)
		encode(a);
	cg_rnn_call_init(&k, sizeof k);
	k.T = R.T;
	k.B = R.B;
	k.lengths = R.lengths;
	k.counter = R.call;
	k.first_step = R.first_step;
	k.accumulate = R.accumulate;
	k.work = (struct cg_mem){ .data = work, .bytes = sizes.work };
	k.reserve = (struct cg_mem){ .data = R.is_training ? reserve : NULL, .bytes = R.is_training ? sizes.reserve : 0 };
	k.params = mem(RNN_params, 1);
	k.input = mem(RNN_input, 1);
	k.input_h = mem(RNN_input_h, h);
	k.input_c = mem(RNN_input_c, h && state);
	k.output = mem(RNN_output, 1);
	k.output_h = mem(RNN_output_h, 1);
	k.output_c = mem(RNN_output_c, state);
	assert_int_equal(ref_rnn_forward(&R), 0);
	code = cg_rnn_forward(stream, rnn, &k);
	if (code)
		return print_error("forward: %s\n", cg_message()), -1;
	judge(RNN_output);
	judge(RNN_output_h);
	if (state)
		judge(RNN_output_c);
	if (R.is_training) {
		if (R.accumulate)
			for (int64_t n = 0; n < at[RNN_params].n; n++)
				numbers_encode(R.dtype, at[RNN_params_backprop_old].d[n], bytes[RNN_params_backprop] + (size_t)n * element(R.dtype));
		memset(work, 0xff, sizes.work);
		k.output_backprop = mem(RNN_output_backprop, dy);
		k.output_h_backprop = mem(RNN_output_h_backprop, dh);
		k.output_c_backprop = mem(RNN_output_c_backprop, dh && state);
		k.input_backprop = mem(RNN_input_backprop, 1);
		k.input_h_backprop = mem(RNN_input_h_backprop, 1);
		k.input_c_backprop = mem(RNN_input_c_backprop, state);
		k.params_backprop = mem(RNN_params_backprop, 1);
		assert_int_equal(ref_rnn_backward(&R), 0);
		code = cg_rnn_backward(stream, rnn, &k);
		if (code)
			return print_error("backward: %s\n", cg_message()), -1;
		judge(RNN_input_backprop);
		judge(RNN_input_h_backprop);
		if (state)
			judge(RNN_input_c_backprop);
		judge(RNN_params_backprop);
	}
	free(work);
	cg_rnn_close(rnn);
	return 0;
}

static void against_the_reference(void **unused)
{
	(void)unused;
	for (int n = 0; n < 1000; n++) {
		model();
		bind_rnn(0);
		draw(1);
		describe();
		assert_int_equal(run(), 0);
	}
	print_message("# worst: %Lg of the bound, in %s\n", worst, worst_name);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(against_the_reference) };

	if (cg_open(getenv("CELLGRAD_BACKEND") ? NULL : "cpu", &context) || cg_stream_open(context, NULL, &stream)) {
		print_error("%s\n", cg_message());
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
