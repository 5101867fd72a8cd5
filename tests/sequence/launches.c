/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks of cells without a recurrent product, on backends with step loops: one launch for all steps of a direction gives the bits that a
 * launch for each step gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "runtime/device/device.h"
#include "verify/numbers.h"
#include "tests/sequence/suite.h"

/* A cell in which one state is the other one of the step before, whose sums read the gradients of all steps, and whose gradient recomputes
 * what it needs. */
static const char crossed[] =
	"cell crossed\n" "input x_a\n" "input x_b no bias\n" "state c d\n" "output h\n" "weight u v\n" "scalar k = 0.5\n"
	"c = 0.5 * c_prev + 0.25 * d_prev + u * tanh(x_a) - k * h_prev\n" "d = c_prev\n" "h = (1 + v) * tanh(c - 0.5 * d_prev) + x_b\n";

/* The backend of the device, and copies of its table: one counts step loops, the other has none. */
static const struct cg_backend *own;
static struct cg_backend counting, stepwise;
static int loops;

static int count_loop(struct cg_queue *queue, const struct cg_module *module, const struct cg_step_loop *loop)
{
	loops++;
	return own->loop_steps(queue, module, loop);
}

static void run_with(const struct cg_backend *backend, struct network *net)
{
	side.context->backend = backend;
	network_run(net);
	side.context->backend = own;
}

static int has_steps(const struct network *net)
{
	int64_t steps = 0;

	for (int64_t b = 0; b < net->B; b++)
		steps += network_length(net, b);
	return steps > 0;
}

/* A random subset of the arguments that may be absent, one bit each; often none. */
static unsigned draw_absent(unsigned long long *state)
{
	const unsigned optional = ALL_OUTPUTS | 1 << INPUT_H | 1 << INPUT_C | 1 << OUTPUT_BACKPROP | 1 << OUTPUT_H_BACKPROP | 1 << OUTPUT_C_BACKPROP;

	return numbers_below(state, 3) ? 0 : (unsigned)numbers_below(state, 1 << ARRAYS) & optional;
}

/* Draws a network of `cell`, the n-th cell of the test.  Where kernels take long to compile, all networks of a cell have one dtype, which
   n chooses. */
static void draw_net(struct network *net, const struct cg_cell *cell, int n, unsigned long long *state)
{
	random_network(net, state);
	if (network_is_slow() && network_has(n % CG_DTYPE_COUNT))
		net->config.dtype = n % CG_DTYPE_COUNT;
	net->config.cell = cell;
	net->config.options = NULL;
	net->config.n_values = 0;
	net->config.proj = 0;
	if (!numbers_below(state, 3))
		net->config.units = net->config.input = 30 + numbers_below(state, 60);
}

void test_step_loop(void **nothing)
{
	const char *const shelf[] = { "indrnn", "mingru", "minlstm", "sru" };
	unsigned long long state;
	struct network net, other;
	struct cg_cell *cell;

	(void)nothing;
	own = side.context->backend;
	if (!own->loop_steps)
		return;
	counting = stepwise = *own;
	counting.loop_steps = count_loop;
	stepwise.loop_steps = NULL;
	assert_int_equal(cg_cell_parse(crossed, "crossed", &cell), CG_OK);
	for (int k = 0; k < network_cases(500); k++) {
		const int drawn = k % 5;

		network_case("step loop", k, &state);
		draw_net(&net, drawn < 4 ? cg_cell_find(shelf[drawn]) : cell, drawn, &state);
		net.absent = draw_absent(&state);
		network_open(&net);
		network_draw(&net, &state, 0.5);
		network_copy(&other, &net);
		loops = 0;
		run_with(&counting, &net);
		assert_int_equal(loops, has_steps(&net) * network_states(&net) * (1 + net.config.training));
		run_with(&stepwise, &other);
		network_alike(&net, &other, network_outputs(&net), "step by step");
		network_close(&other);
		network_close(&net);
	}
	cg_cell_close(cell);
}
