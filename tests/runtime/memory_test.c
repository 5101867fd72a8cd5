/*
 * Every request for host memory refused in turn: each call says so with the right code, leaves nothing behind, and works when it is
 * called again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/runtime.h"

enum { B = 3, I = 2, U = 4, ROOM = 4096 };

static float room[ROOM];
static size_t used;

static struct cg_mem take(int64_t n)
{
	struct cg_mem mem = { room + used, 0, (size_t)n * sizeof *room, CG_HOST };

	used += (size_t)n;
	assert_true(used < ROOM);
	return mem;
}

/* Everything a program does, in f16 lest products need no scratch; the first code that is not CG_OK. */
static int whole(void)
{
	static const char text[] = "cell x\ngates a\nstate c\noutput h\nc = a + c_prev\nh = tanh(c)\nsave c\n";
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_mem mem = { NULL, 0, 0, 0 };
	struct cg_cell *cell = NULL;
	struct cg_gru_block op;
	char *source = NULL, *json = NULL;
	int code = cg_open("cpu", &context);

	used = 0;
	if (!code)
		code = cg_stream_open(context, NULL, &stream);
	if (!code)
		code = cg_alloc(context, 100, &mem);
	cg_gru_block_init(&op, sizeof op);
	op.B = B;
	op.I = I;
	op.U = U;
	op.dtype = CG_F16;
	op.x = take(B * I);
	op.h_prev = take(B * U);
	op.w_ru = take((I + U) * 2 * U);
	op.w_c = take((I + U) * U);
	op.b_ru = take(2 * U);
	op.b_c = take(U);
	op.r = take(B * U);
	op.u = take(B * U);
	op.c = take(B * U);
	op.h = take(B * U);
	op.d_h = take(B * U);
	op.d_x = take(B * I);
	op.d_h_prev = take(B * U);
	op.d_w_ru = take((I + U) * 2 * U);
	op.d_w_c = take((I + U) * U);
	op.d_b_ru = take(2 * U);
	op.d_b_c = take(U);
	if (!code)
		code = cg_gru_block_forward(stream, &op);
	if (!code)
		code = cg_gru_block_grad(stream, &op);
	if (!code)
		code = cg_cell_parse(text, "x", &cell);
	if (!code)
		code = cg_kernel_emit(&(struct cg_kernel){ .cell = cell, .pass = CG_GRADGRAD }, "opencl", &source);
	if (!code)
		code = cg_kernel_manifest(&(struct cg_kernel){ .cell = cell, .pass = CG_GRAD, .dtype = CG_BF16 }, "c", &json);
	cg_text_free(source);
	cg_text_free(json);
	cg_cell_close(cell);
	cg_free(context, &mem);
	cg_stream_close(stream);
	cg_close(context);
	return code;
}

static void test_refused_in_turn(void **state)
{
	size_t n = 1, refused = 0;

	(void)state;
	for (;; n++) {
		int code;

		cg_memory_fail(n);
		code = whole();
		if (cg_memory_fail(0) < n) {
			assert_int_equal(code, CG_OK);
			break;
		}
		if (code != CG_NO_MEMORY || !strstr(cg_message(), "no memory"))
			fail_msg("request %zu refused: code %d, \"%s\"", n, code, cg_message());
		refused++;
	}
	print_message("# %zu requests refused in turn\n", refused);
	assert_true(refused > 20);
	assert_int_equal(whole(), CG_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_refused_in_turn) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
