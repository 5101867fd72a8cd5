/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a plan from a call's attributes, in the process's context, with the cells that the process has parsed before and the library's plan
 * cache.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/jax/network_attributes.h"

enum { NAMES_MAX = 1024, CELLS_MAX = 64 };

/* Cells that were given as text are kept, since parsing a cell takes longer than a small call.  Once CELLS_MAX cells are kept, further
 * cells are parsed in each call. */
struct known_cell { struct known_cell *next; struct cg_cell *cell; struct xla_bytes text; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cg_context *shared_context;
static struct known_cell *known_cells;
static int n_known_cells;

/* A network's config, and the memory that it points to. */
struct described {
	struct cg_rnn_config config;
	struct cg_cell *own;                     /* a cell that is not kept and is closed after the call; NULL: none */
	struct cg_value values[CG_CELL_NAMES];
	char options[NAMES_MAX], names[NAMES_MAX];
};

static const struct { const char *name; size_t at; } INTEGERS[] = {
	{ "layers",        offsetof(struct cg_rnn_config, layers) },
	{ "bidirectional", offsetof(struct cg_rnn_config, bidirectional) },
	{ "input_mode",    offsetof(struct cg_rnn_config, input_mode) },
	{ "time_major",    offsetof(struct cg_rnn_config, time_major) },
	{ "reverse",       offsetof(struct cg_rnn_config, reverse) },
	{ "training",      offsetof(struct cg_rnn_config, training) },
};

static struct cg_context *find_context(struct call_frame *f)
{
	const char *where = getenv("CELLGRAD_BACKEND");
	int code = CG_OK;

	pthread_mutex_lock(&lock);
	if (!shared_context)
		code = cg_open(where && *where ? where : "cpu", &shared_context);
	pthread_mutex_unlock(&lock);
	return jax_has_failed(f, code) ? NULL : shared_context;
}

static int is_text(struct xla_bytes a, const char *b, size_t length)
{
	return a.length == length && !memcmp(a.data, b, length);
}

static const struct cg_cell *find_cell(struct xla_bytes text)
{
	const char *name;

	for (int of_shelf = 0; of_shelf < 2; of_shelf++)
		for (int i = 0; (name = of_shelf ? cg_shelf_name(i) : cg_cell_name(i)); i++)
			if (is_text(text, name, strlen(name)))
				return cg_cell_find(name);
	for (struct known_cell *k = known_cells; k; k = k->next)
		if (is_text(text, k->text.data, k->text.length))
			return k->cell;
	return NULL;
}

/* Keeps a cell and the copy of its text, if there is space.  Returns 1 if the cell and the copy are kept. */
static int keep_cell(struct cg_cell *cell, struct xla_bytes text)
{
	struct known_cell *k = n_known_cells < CELLS_MAX ? malloc(sizeof *k) : NULL;

	if (!k)
		return 0;
	*k = (struct known_cell){ known_cells, cell, text };
	known_cells = k;
	n_known_cells++;
	return 1;
}

/* Parses a cell; called under the lock. */
static void parse_cell(struct call_frame *f, struct described *d, struct xla_bytes text)
{
	char *copy = malloc(text.length + 1);

	if (!copy) {
		jax_refuse(f, CG_NO_MEMORY, "cell: no memory for a copy of the text, %zu bytes", text.length + 1);
		return;
	}
	memcpy(copy, text.data, text.length);
	copy[text.length] = '\0';
	if (!jax_has_failed(f, cg_cell_parse(copy, "cell", &d->own))) {
		d->config.cell = d->own;
		if (keep_cell(d->own, (struct xla_bytes){ copy, text.length })) {
			d->own = NULL;
			return;
		}
	}
	free(copy);
}

static void set_cell(struct call_frame *f, struct described *d)
{
	struct xla_bytes text = jax_text(f, "cell");

	if (f->code)
		return;
	pthread_mutex_lock(&lock);
	d->config.cell = find_cell(text);
	if (!d->config.cell && memchr(text.data, '\n', text.length))
		parse_cell(f, d, text);
	else if (!d->config.cell)
		jax_refuse(f, CG_BAD_ARGUMENT, "cell: there is no cell '%.*s'", text.length < 60 ? (int)text.length : 60, text.data);
	pthread_mutex_unlock(&lock);
}

/* Sets the values of the cell's params: attribute value_names lists their names, and value_NAME has the value of each. */
static void set_values(struct call_frame *f, struct described *d)
{
	char attribute[NAMES_MAX + sizeof "value_"], *rest = NULL;
	int n = 0;

	jax_copy_text(f, "value_names", d->names, sizeof d->names);
	for (char *name = strtok_r(d->names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		if (n == CG_CELL_NAMES) {
			jax_refuse(f, CG_BAD_ARGUMENT, "value_names: expected at most %d names, got more", CG_CELL_NAMES);
			break;
		}
		snprintf(attribute, sizeof attribute, "value_%s", name);
		d->values[n++] = (struct cg_value){ name, jax_real(f, attribute) };
	}
	d->config.values = d->values;
	d->config.n_values = n;
}

static void describe(struct call_frame *f, struct described *d, int dtype, int64_t input)
{
	struct cg_rnn_config *config = &d->config;

	cg_rnn_config_init(config, sizeof *config);
	d->own = NULL;
	for (size_t k = 0; k < sizeof INTEGERS / sizeof *INTEGERS; k++)
		*(int *)((char *)config + INTEGERS[k].at) = (int)jax_integer(f, INTEGERS[k].name, 0, INT_MAX);
	config->units = jax_integer(f, "units", 0, INT64_MAX);
	config->proj = jax_integer(f, "proj", 0, INT64_MAX);
	config->dropout = jax_real(f, "dropout");
	jax_copy_text(f, "options", d->options, sizeof d->options);
	set_values(f, d);
	set_cell(f, d);
	config->options = d->options;
	config->dtype = dtype;
	config->input = input;
	config->states_major = 1;
}

int jax_open_network(struct call_frame *f, int dtype, int64_t input, struct cg_rnn **rnn, struct cg_stream **stream)
{
	struct cg_context *context;
	struct described d;

	describe(f, &d, dtype, input);
	context = f->code ? NULL : find_context(f);
	if (context && !jax_has_failed(f, cg_rnn_get(context, &d.config, rnn)) && jax_has_failed(f, cg_stream_take(context, stream)))
		cg_rnn_close(*rnn);
	cg_cell_close(d.own);
	return !f->code;
}
