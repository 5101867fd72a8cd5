/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls for cells and kernel texts.  The calls use the compiler of cells in gen/ and turn the mistakes in a cell that the
 * compiler finds into messages.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gen/cell.h"
#include "gen/steps.h"
#include "runtime/core/core.h"

enum { CELLS_MAX = 64 };

/* The built-in cells, then those of the shelf; each is parsed at first use and kept until the process ends. */
static struct { char name[CG_NAME_MAX + 1]; const char *text; struct cg_cell *cell; } known[CELLS_MAX];
static int n_built_in, n_known;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add_cells(const struct cg_embedded *e)
{
	for (; e->name && n_known < CELLS_MAX; e++) {
		size_t n = strlen(e->name);

		if (n > 5 && n - 5 <= CG_NAME_MAX && !strcmp(e->name + n - 5, ".cell")) {
			known[n_known].text = e->text;
			memcpy(known[n_known++].name, e->name, n - 5);
		}
	}
}

static void list_cells(void)
{
	add_cells(cg_embedded);
	n_built_in = n_known;
	add_cells(cg_shelf);
}

const char *cg_cell_name(int i)
{
	pthread_once(&once, list_cells);
	return i >= 0 && i < n_built_in ? known[i].name : NULL;
}

const char *cg_shelf_name(int i)
{
	pthread_once(&once, list_cells);
	return i >= 0 && i < n_known - n_built_in ? known[n_built_in + i].name : NULL;
}

const struct cg_cell *cg_cell_find(const char *name)
{
	const char *names[CELLS_MAX];
	struct cg_cell *cell;
	const char *near;
	int k = 0;

	pthread_once(&once, list_cells);
	for (; name && k < n_known; k++) {
		names[k] = known[k].name;
		if (!strcmp(known[k].name, name))
			break;
	}
	if (!name || k == n_known) {
		near = name ? cg_nearest(name, names, k) : NULL;
		if (near)
			cg_fail(CG_BAD_ARGUMENT, "there is no cell '%.64s'; did you mean '%s'?", name, near);
		else
			cg_fail(CG_BAD_ARGUMENT, "there is no cell '%.64s'", name ? name : "NULL");
		return NULL;
	}
	cell = __atomic_load_n(&known[k].cell, __ATOMIC_ACQUIRE);
	if (cell)
		return cell;
	pthread_mutex_lock(&lock);
	if (!known[k].cell && !cg_cell_parse(known[k].text, name, &cell))
		__atomic_store_n(&known[k].cell, cell, __ATOMIC_RELEASE);
	cell = known[k].cell;
	pthread_mutex_unlock(&lock);
	return cell;
}

int cg_cell_parse(const char *text, const char *name_in_errors, struct cg_cell **cell)
{
	struct cg_mistake mistake;

	if (cell)
		*cell = NULL;
	if (!text || !cell)
		return cg_fail(CG_BAD_ARGUMENT, "cg_cell_parse: %s: expected a pointer, got NULL", text ? "cell" : "text");
	*cell = cg_parse(text, name_in_errors ? name_in_errors : "cell", cg_memory, &mistake);
	if (*cell)
		return CG_OK;
	return mistake.text[0] ? cg_fail(CG_BUILD, "%s", mistake.text) : CG_NO_MEMORY;
}

void cg_cell_close(struct cg_cell *cell)
{
	for (int k = 0; k < n_known; k++)
		if (known[k].cell == cell)
			return;
	cg_cell_release(cell);
}

/* ---- the parts of a cell ---- */

_Static_assert((int)CG_GATES_MAX <= (int)CG_CELL_NAMES && (int)CG_WEIGHTS_MAX <= (int)CG_CELL_NAMES &&
               (int)CG_OPTIONS_MAX <= (int)CG_CELL_NAMES && (int)CG_PARAMS_MAX <= (int)CG_CELL_NAMES &&
               (int)CG_SCALARS_MAX <= (int)CG_CELL_NAMES, "struct cg_cell_parts must have a place for each name of a cell");

_Static_assert(CG_HAS_INPUT == 1 << CG_PART_W && CG_HAS_RECURRENT == 1 << CG_PART_R && CG_HAS_BIAS_W == 1 << CG_PART_BIAS_W &&
               CG_HAS_BIAS_R == 1 << CG_PART_BIAS_R, "each CG_HAS_ constant must be 1 << the enum cg_gate_part of its weights");

void cg_cell_parts_init(struct cg_cell_parts *parts, size_t size)
{
	static const struct cg_cell_parts defaults = { .size = 0 };

	cg_sized_init(parts, size, &defaults, sizeof defaults);
}

static void list_parts(const struct cg_cell *cell, struct cg_cell_parts *p)
{
	p->name = cell->name;
	p->n_stages = cell->n_stages;
	for (int k = 0; k < cell->n_prevs; k++)
		p->n_states += !cell->prevs[k].output;
	p->has_state = p->n_states > 0;
	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].whole < 0) {
			p->gate_weights[p->n_gates] = (int)cg_gate_weights(cell, k);
			p->gates[p->n_gates++] = cell->gates[k].name;
		}
	for (; p->n_vectors < cell->n_weights; p->n_vectors++) {
		p->vectors[p->n_vectors] = cell->weights[p->n_vectors].name;
		p->vector_option[p->n_vectors] = cell->weights[p->n_vectors].option;
		p->vector_starts[p->n_vectors] = cell->weights[p->n_vectors].given ? cell->weights[p->n_vectors].start : NAN;
	}
	for (; p->n_options < cell->n_options; p->n_options++)
		p->options[p->n_options] = cell->options[p->n_options].name;
	for (; p->n_params < cell->n_params; p->n_params++) {
		const struct cg_param *param = &cell->params[p->n_params];

		p->params[p->n_params] = param->name;
		p->defaults[p->n_params] = param->given ? param->value : NAN;
	}
	for (; p->n_scalars < cell->n_scalars; p->n_scalars++) {
		p->scalars[p->n_scalars] = cell->scalars[p->n_scalars].name;
		p->starts[p->n_scalars] = cell->scalars[p->n_scalars].start;
	}
}

int cg_cell_info(const struct cg_cell *cell, struct cg_cell_parts *parts)
{
	struct cg_cell_parts p;

	if (!cell)
		return cg_fail(CG_BAD_ARGUMENT, "cg_cell_info: cell: expected a cell, got NULL");
	CG_TRY(cg_sized_check("cg_cell_info", "cg_cell_parts", parts, sizeof *parts));
	cg_cell_parts_init(&p, sizeof p);
	list_parts(cell, &p);
	p.size = parts->size;
	*parts = p;
	return CG_OK;
}

/* ---- the digest of a cell ---- */

static int is_of_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* Hashes a cell's text without comments, empty lines, blanks that do not separate words, and line ends within parentheses. */
uint64_t cg_cell_digest(const struct cg_cell *cell)
{
	uint64_t digest = CG_FINGERPRINT;
	char before = '\n', between = 0;
	int depth = 0;

	for (const char *at = cell->text; *at; at++) {
		if (*at == '#')
			at += strcspn(at, "\n") - 1;
		else if (*at == '\n' && !depth)
			between = '\n';
		else if (strchr(" \t\r\n", *at))
			between = between ? between : ' ';
		else {
			depth += (*at == '(') - (*at == ')');
			if (before != '\n' && (between == '\n' || (between && is_of_word(before) && is_of_word(*at))))
				digest = cg_fingerprint(digest, &between, 1);
			digest = cg_fingerprint(digest, at, 1);
			before = *at;
			between = 0;
		}
	}
	return digest;
}

void cg_cell_retain(const struct cg_cell *cell)
{
	__atomic_add_fetch(&((struct cg_cell *)cell)->holders, 1, __ATOMIC_RELAXED);
}

void cg_cell_release(const struct cg_cell *cell)
{
	if (cell && __atomic_fetch_sub(&((struct cg_cell *)cell)->holders, 1, __ATOMIC_ACQ_REL) == 0)
		cg_parse_free((struct cg_cell *)cell);
}

int cg_kernel_check(const struct cg_kernel *kernel, const char *call, int *options)
{
	struct cg_mistake mistake;

	if (!kernel || !kernel->cell)
		return cg_fail(CG_BAD_ARGUMENT, "%s: %s, got NULL", call, kernel ? "cell: expected a cell" : "kernel: expected a struct cg_kernel");
	*options = cg_parse_options(kernel->cell, kernel->options, &mistake);
	if (*options < 0)
		return cg_fail(CG_BAD_ARGUMENT, "%s: options: %s", call, mistake.text);
	if (kernel->pass < CG_FORWARD || kernel->pass >= (int)CG_PASS_COUNT)
		return cg_fail(CG_BAD_ARGUMENT, "%s: pass: expected an enum cg_pass, got %d", call, kernel->pass);
	if (!cg_dtype_bytes(kernel->dtype))
		return cg_fail(CG_BAD_ARGUMENT, "%s: dtype: expected an enum cg_dtype, got %d", call, kernel->dtype);
	if (kernel->stage < 0 || kernel->stage > kernel->cell->n_stages)
		return cg_fail(CG_BAD_ARGUMENT, "%s: stage: expected 0 to %d of cell %s, got %d", call, kernel->cell->n_stages, kernel->cell->name,
		               kernel->stage);
	return CG_OK;
}

/* A kernel over all steps of a sequence exists in C alone: on a GPU the host launches the product and the kernels of each step. */
static int check_scan(const struct cg_kernel *kernel, int lang, const char *call)
{
	if (kernel->pass != CG_SEQ_FORWARD && kernel->pass != CG_SEQ_GRAD)
		return cg_fail(CG_UNSUPPORTED, "%s: shape: CG_SCAN needs pass %s or %s, got %s", call, cg_pass_names[CG_SEQ_FORWARD],
		               cg_pass_names[CG_SEQ_GRAD], cg_pass_names[kernel->pass]);
	if (kernel->stage)
		return cg_fail(CG_BAD_ARGUMENT, "%s: stage: CG_SCAN computes all stages: expected 0, got %d", call, kernel->stage);
	if (lang != CG_LANG_C)
		return cg_fail(CG_BAD_ARGUMENT, "%s: lang: CG_SCAN is for the CPU: expected %s, got %s, where the host launches each step", call,
		               cg_lang_names[CG_LANG_C], cg_lang_names[lang]);
	return CG_OK;
}

/* Makes the plan of the kernel that a caller describes; call: the name of the public call, for the message. */
static int plan_of(const struct cg_kernel *kernel, int lang, const char *call, struct cg_pass_plan **plan)
{
	struct cg_mistake mistake;
	int options;

	CG_TRY(cg_kernel_check(kernel, call, &options));
	if (kernel->shape == CG_SCAN)
		CG_TRY(check_scan(kernel, lang, call));
	else if (kernel->shape != CG_POINT)
		return cg_fail(CG_UNSUPPORTED, "%s: shape: expected CG_POINT, whose text includes the sums, or CG_SCAN, got %d", call,
		               kernel->shape);
	*plan = kernel->shape == CG_SCAN
		? cg_plan_steps(kernel->cell, options, kernel->pass, kernel->dtype, cg_memory, &mistake)
		: cg_plan(kernel->cell, options, kernel->pass, kernel->stage, kernel->dtype, cg_memory, &mistake);
	if (*plan)
		return CG_OK;
	return mistake.text[0] ? cg_fail(CG_BUILD, "%s: %s", call, mistake.text) : CG_NO_MEMORY;
}

static int emit(const struct cg_kernel *kernel, const char *lang, char **result, const char *call, const char *argument,
                int (*print)(const struct cg_pass_plan *, int, struct cg_text *))
{
	struct cg_text text = { cg_memory, NULL, 0, 0, 0 };
	struct cg_pass_plan *plan;
	int k = 0, code;

	if (!result)
		return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected a pointer for the result, got NULL", call, argument);
	*result = NULL;
	while (k < CG_LANG_COUNT && (!lang || strcmp(lang, cg_lang_names[k])))
		k++;
	if (k == CG_LANG_COUNT) {
		const char *near = lang ? cg_nearest(lang, cg_lang_names, CG_LANG_COUNT) : NULL;
		char all[80];

		cg_list_names(all, sizeof all, cg_lang_names, CG_LANG_COUNT, "or");
		return cg_fail(CG_BAD_ARGUMENT, "%s: lang: expected %s, got '%.40s'%s%s%s", call, all, lang ? lang : "NULL",
		               near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	}
	CG_TRY(plan_of(kernel, k, call, &plan));
	code = print(plan, k, &text);
	cg_plan_free(plan);
	if (code || text.failed) {
		cg_memory(text.at, 0);
		return text.failed ? CG_NO_MEMORY : cg_fail(CG_BUILD, "%s: the text of this kernel was not printed: a text of templates/ in this "
		                                            "build lacks a section", call);
	}
	*result = text.at;
	return CG_OK;
}

/* Does the kernel compute all steps of a sequence?  The kernel may be NULL. */
static int is_scan(const struct cg_kernel *kernel)
{
	return kernel && kernel->shape == CG_SCAN;
}

int cg_kernel_emit(const struct cg_kernel *kernel, const char *lang, char **text)
{
	return emit(kernel, lang, text, "cg_kernel_emit", "text", is_scan(kernel) ? cg_print_steps : cg_print);
}

int cg_kernel_manifest(const struct cg_kernel *kernel, const char *lang, char **json)
{
	return emit(kernel, lang, json, "cg_kernel_manifest", "json", is_scan(kernel) ? cg_print_steps_manifest : cg_print_manifest);
}

static int print_header(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	(void)lang;
	return plan->steps ? cg_print_steps_header(plan, text) : cg_print_header(plan, text);
}

int cg_kernel_header(const struct cg_kernel *kernel, char **text)
{
	return emit(kernel, cg_lang_names[CG_LANG_C], text, "cg_kernel_header", "text", print_header);
}

void cg_text_free(char *text)
{
	cg_memory(text, 0);
}
