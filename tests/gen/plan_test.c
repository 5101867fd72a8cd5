/*
 * What pieces a pass is cut into: the same for a stage alone as for all, sums that give what their parts have summed, nothing
 * computed again that is kept.  What pieces compute is derive_test.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "every.h"

static void same_piece(const struct cg_piece *a, const struct cg_piece *b)
{
	assert_string_equal(a->key, b->key);
	assert_int_equal(a->shape, b->shape);
	assert_int_equal(a->n_arguments, b->n_arguments);
	assert_int_equal(a->n_schedule, b->n_schedule);
	for (int k = 0; k < a->n_arguments; k++)
		assert_string_equal(a->arguments[k].name, b->arguments[k].name);
}

/* A plan of one stage is that stage of the plan of all; and a sum gives what its part has summed. */
static void test_stages(void **state)
{
	struct cg_cell *cell;

	(void)state;
	for (int c = 0; (cell = every_cell(c)); c++) {
		for (int pass = 0; pass < 3; pass++) {
			struct cg_pass_plan *all = must_plan(cell, 0, pass, 0, 0);
			int seen = 0;

			for (int s = 1; s <= cell->n_stages; s++) {
				struct cg_pass_plan *one = must_plan(cell, 0, pass, s, 0);

				for (int k = 0, j = 0; k < all->n_pieces; k++)
					if (all->pieces[k].stage == s) {
						assert_true(j < one->n_pieces);
						same_piece(&all->pieces[k], &one->pieces[j++]);
						seen++;
					}
				cg_plan_free(one);
			}
			assert_int_equal(seen, all->n_pieces);
			for (int k = 0; k + 1 < all->n_pieces; k++) {
				const struct cg_piece *part = &all->pieces[k], *sum = &all->pieces[k + 1];

				if (part->shape != CG_PIECE_SUM_PART)
					continue;
				assert_int_equal(sum->shape, CG_PIECE_SUM);
				for (int j = part->n_arguments - 1, i = sum->n_arguments - 2; i > 2; i--, j--)
					assert_string_equal(part->arguments[j].name, sum->arguments[i].name);
			}
			cg_plan_free(all);
		}
		cg_parse_free(cell);
	}
}

/* Nothing is computed again that is kept: built-in cells save all that a pre-activation would be wanted for. */
static void test_kept(void **state)
{
	struct cg_cell *cell;

	(void)state;
	for (int c = 0; c < built_ins(); c++) {
		cell = every_cell(c);
		for (int pass = 0; pass < 3; pass++) {
			struct cg_pass_plan *plan = must_plan(cell, (1 << cell->n_options) - 1, pass, 0, 0);

			for (int k = 0; k < plan->n_pieces; k++) {
				const struct cg_piece *piece = &plan->pieces[k];

				for (int j = 0; j < piece->n_arguments; j++) {
					const struct cg_argument *a = &piece->arguments[j];
					int loaded = 0;

					if (a->role == CG_ROLE_GATE && a->order == CG_VALUE &&
					    (pass || cell->gates[a->index].stage != piece->stage))
						fail_msg("%s takes %s", piece->key, a->name);
					for (int i = 0; i < piece->n_arguments; i++)
						loaded |= !piece->arguments[i].out && piece->arguments[i].node == a->node;
					if (piece->shape == CG_PIECE_SUM_PART && a->role == CG_ROLE_BIAS && !loaded)
						fail_msg("%s computes %s again", piece->key, a->name);
				}
			}
			cg_plan_free(plan);
		}
		cg_parse_free(cell);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_kept),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
