/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the cell that arguments and files name, and checks that arguments and files agree. Cells are compared by the digest of their text,
 * which a file's metadata may have, since the path of a cell's file may differ on another machine, and its text may have changed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command/run/metadata.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

/* A cell as a source names it. by: the source; known: 1: the digest of the cell is known. */
struct named { const char *by, *name; uint64_t digest; int known; };

static const char digest_key[] = "cell_digest";

const char *metadata_digest(const struct cg_cell *cell, char digits[METADATA_DIGEST])
{
	snprintf(digits, METADATA_DIGEST, "%016llx", (unsigned long long)cg_cell_digest(cell));
	return digits;
}

/* ---- what a file says ---- */

static int read_digest(const struct safetensors *file, const char *text, uint64_t *digest)
{
	char where[METADATA_WHERE], shown[PRINT_NAME];

	*digest = strtoull(text, NULL, 16);
	if (strlen(text) == METADATA_DIGEST - 1 && strspn(text, "0123456789abcdef") == METADATA_DIGEST - 1)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s%s: expected 16 hexadecimal digits, in small letters, got \"%s\"",
	               metadata_where(file, where), digest_key, print_name(shown, text));
}

/* Finds the digest of a cell of the library, or of the cell in a file that can be read; otherwise the digest stays unknown. */
static int find_digest(const struct safetensors *file, struct named *n)
{
	const struct cg_cell *cell;
	struct cg_cell *parsed;
	char where[METADATA_WHERE];
	int code = file_cell(n->name, 0, &cell, &parsed);

	if (code == CG_NO_MEMORY)
		return code;
	/* A name that is not the path of a cell's file can only be that of a cell of the library. */
	if (code && !file_is_cell(n->name))
		return cg_fail_in(CG_BAD_ARGUMENT, "%scell", metadata_where(file, where));
	n->known = !code;
	n->digest = code ? 0 : cg_cell_digest(cell);
	cg_cell_close(parsed);
	return CG_OK;
}

/* Reads the cell that a file's metadata names: in the entry `cell`, else in rnn_mode. Version 0.1.0 wrote rnn_mode even where that was
 * not the cell. */
static int of_file(const struct call *c, const struct safetensors *file, struct named *n)
{
	static const struct cg_attribute mode = { .name = "rnn_mode", .kind = CG_WORD, .words = cg_rnn_modes };
	const char *cell = metadata_of(c, file, "cell"), *word = metadata_of(c, file, "rnn_mode"), *digest = metadata_of(c, file, digest_key);
	const char *linear = metadata_of(c, file, "linear_before_reset");
	char where[METADATA_WHERE];
	int which;

	*n = (struct named){ .by = file->path, .name = cell && *cell ? cell : word };
	if (n->name == word && word) {
		CG_TRY(attribute_read(&mode, word, metadata_where(file, where), &which));
		/* ONNX has one name for both cells gru and gru_block. */
		if (!strcmp(word, "gru") && linear && metadata_alike(linear, "0"))
			n->name = "gru_block";
	}
	if (!n->name)
		return CG_OK;
	if (!digest)
		return find_digest(file, n);
	n->known = 1;
	return read_digest(file, digest, &n->digest);
}

/* What the metadata of a file says of the cell's options or values. A file with a digest describes its cell completely: options that it
 * does not name are off, and params that it does not name have their defaults. */
static const char *all_of_cell(const struct call *c, const struct safetensors *file, const char *name)
{
	const char *text = metadata_of(c, file, name);

	if (text || !metadata_of(c, file, digest_key))
		return text;
	/* Files of block ops have the attributes forget_bias and cell_clip instead of `values`. */
	if (!strcmp(name, "values") && (metadata_of(c, file, "forget_bias") || metadata_of(c, file, "cell_clip")))
		return NULL;
	return "";
}

/* ---- whether they agree ---- */

enum { SHOWN = 96 };

static int differ(const struct call *c, const struct named *a, const struct named *b)
{
	char name[PRINT_NAME], one[SHOWN], two[SHOWN];

	if (strcmp(a->name, b->name))
		return metadata_differ(c, "cell", (struct statement){ a->by, a->name }, (struct statement){ b->by, b->name });
	snprintf(one, sizeof one, "that the text of its cell has digest %016llx", (unsigned long long)a->digest);
	snprintf(two, sizeof two, "%016llx", (unsigned long long)b->digest);
	metadata_differ(c, "cell", (struct statement){ a->by, one }, (struct statement){ b->by, two });
	return cg_fail_in(CG_BAD_ARGUMENT, "two cells are called %s", print_name(name, a->name));
}

/* Refuses cells whose digests are known and differ. *first becomes the first cell with a name, or, if any source has a digest, the first
 * one with a digest. */
static int agree(const struct call *c, struct named *first)
{
	for (size_t f = 0; f < c->n_files; f++) {
		struct named n;

		CG_TRY(of_file(c, &c->files[f], &n));
		if (first->known && n.known && first->digest != n.digest)
			return differ(c, first, &n);
		if (n.name && (!first->name || (n.known && !first->known)))
			*first = n;
	}
	return CG_OK;
}

/* ---- the cell itself ---- */

/* Reports that the cell which a file's metadata names cannot be read. */
static int cannot_open(const struct safetensors *file, const char *name)
{
	char where[METADATA_WHERE], shown[PRINT_NAME];
	const struct cg_cell *cell;
	struct cg_cell *parsed;

	/* The cell is read again, for the message of the failure. */
	if (!file_cell(name, 0, &cell, &parsed)) {
		cg_cell_close(parsed);
		cg_fail(CG_BAD_ARGUMENT, "%s", print_name(shown, name));
	}
	cg_fail_in(CG_BAD_ARGUMENT, "%scell", metadata_where(file, where));
	/* The message about a mistake in a cell's text ends with a line that points to it. */
	return strchr(cg_message(), '\n') ? CG_BAD_ARGUMENT :
	       cg_fail(CG_BAD_ARGUMENT, "%s; cell=PATH says where the cell's file is, --ignore-metadata leaves out what files say",
	               cg_message());
}

static int is_another(const struct safetensors *file, const char *name, uint64_t then, uint64_t now)
{
	char where[METADATA_WHERE], shown[PRINT_NAME];

	return cg_fail(CG_BAD_ARGUMENT, "%scell: the text of %s is not the one with which the file was written: expected digest %016llx, "
	               "got %016llx; cell=PATH says where the former text is, --ignore-metadata leaves out what files say",
	               metadata_where(file, where), print_name(shown, name), (unsigned long long)then, (unsigned long long)now);
}

/* Orders names by which files call the same cell, so that the choice of one does not depend on the order of files: names of the library's
 * cells first, then alphabetically. */
static int is_before(const char *name, const char *found)
{
	int path = file_is_cell(name), other = found && file_is_cell(found);

	return !found || path < other || (path == other && strcmp(name, found) < 0);
}

/* Opens the cell with this digest by one of the names that files give. If no name leads to that cell, the message says why one of the names
 * does not. */
static int open_cell(const struct call *c, uint64_t digest, struct metadata_cell *m)
{
	struct { const struct safetensors *file; const char *name; uint64_t digest; } closed = { .file = NULL }, changed = { .file = NULL };

	for (size_t f = 0; f < c->n_files; f++) {
		const struct cg_cell *cell;
		struct cg_cell *parsed;
		struct named n;
		int code;

		CG_TRY(of_file(c, &c->files[f], &n));
		if (!n.name || !is_before(n.name, m->name))
			continue;
		code = file_cell(n.name, 0, &cell, &parsed);
		if (code == CG_NO_MEMORY)
			return code;
		if (!code && cg_cell_digest(cell) == digest) {
			cg_cell_close(m->parsed);
			*m = (struct metadata_cell){ n.name, cell, parsed, m->options, m->values };
			continue;
		}
		if (code)
			closed.file = &c->files[f], closed.name = n.name;
		else
			changed.file = &c->files[f], changed.name = n.name, changed.digest = cg_cell_digest(cell);
		cg_cell_close(parsed);
	}
	if (m->name)
		return CG_OK;
	return changed.file ? is_another(changed.file, changed.name, digest, changed.digest) : cannot_open(closed.file, closed.name);
}

/* For an op without an attribute `cell`: the next name of a cell, from the list at *list, or, where that is NULL, the name of mode k. */
static int next_cell(const struct call *c, const char **list, int k, char name[CG_NAME_MAX + 1])
{
	size_t n;

	if (!*list) {
		snprintf(name, CG_NAME_MAX + 1, "%s", attribute_find(c, "rnn_mode") && cg_rnn_modes[k] ? cg_rnn_modes[k] : "");
		return *name != '\0';
	}
	n = strcspn(*list, ", ");
	snprintf(name, CG_NAME_MAX + 1, "%.*s", (int)n, *list);
	*list += n + ((*list)[n] == ',');
	return *name != '\0';
}

static int choose_cell(const struct call *c, const struct named *want, struct metadata_cell *m)
{
	const char *list = metadata_meaning(c, "cell");
	char name[CG_NAME_MAX + 1], all[SHOWN] = "";

	for (int k = 0; next_cell(c, &list, k, name); k++) {
		m->cell = cg_cell_find(name);
		m->name = m->cell ? m->cell->name : NULL;
		if (m->cell && want->known && cg_cell_digest(m->cell) == want->digest)
			return CG_OK;
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? " or " : "", name);
	}
	return metadata_differ(c, "cell", (struct statement){ want->by, want->name }, (struct statement){ by_op, all });
}

/* ---- its options and values ---- */

static int is_option(const char *name, size_t n, const char *list)
{
	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strcspn(list, ",") == n && !strncmp(list, name, n))
			return 1;
	return 0;
}

static int has_all(const char *list, const char *of)
{
	for (; *of; of += strcspn(of, ","), of += *of == ',')
		if (!is_option(of, strcspn(of, ","), list))
			return 0;
	return 1;
}

static int read_options(const struct call *c, struct metadata_cell *m)
{
	enum { MOST = CG_OPTIONS_MAX * (CG_NAME_MAX + 1) };
	struct statement first = { m->options ? by_attribute : NULL, m->options };
	char where[METADATA_WHERE];

	for (size_t f = 0; f < c->n_files; f++) {
		const struct statement next = { c->files[f].path, all_of_cell(c, &c->files[f], "options") };

		if (next.what && strlen(next.what) > MOST)
			return cg_fail(CG_BAD_ARGUMENT, "%soptions: expected at most %d bytes, got %zu", metadata_where(&c->files[f], where), MOST,
			               strlen(next.what));
		if (next.what && first.by && strlen(first.what) <= MOST && !(has_all(first.what, next.what) && has_all(next.what, first.what)))
			return metadata_differ(c, "options", first, next);
		/* Of several lists of the same options the alphabetically first is taken, so that the order of files does not matter. */
		if (next.what && (!first.by || (first.by != by_attribute && strcmp(next.what, first.what) < 0)))
			first = next;
	}
	m->options = first.what;
	if (first.what && *first.what && !attribute_find(c, "options") && !attribute_find(c, "use_peephole"))
		return metadata_differ(c, "options", first, (struct statement){ by_op, "" });
	return CG_OK;
}

/* Parses NAME=NUMBER,... into the values of the cell's params, in the order of the params; a param without a default that the text does
 * not name is NaN. */
static int numbers(const struct cg_cell *cell, int dtype, const char *text, double all[CG_PARAMS_MAX])
{
	struct cg_value values[CG_PARAMS_MAX];
	char *memory = NULL;
	int n = 0, code = values_read(text, &memory, values, &n);

	for (int p = 0; p < cell->n_params; p++)
		all[p] = cell->params[p].given ? cg_round(dtype, cell->params[p].value) : (double)NAN;
	for (int k = 0; k < n && !code; k++) {
		int p = 0;

		while (p < cell->n_params && strcmp(cell->params[p].name, values[k].name))
			p++;
		if (p == cell->n_params)
			code = cg_fail(CG_BAD_ARGUMENT, "values: cell %s has no param '%.60s'", cell->name, values[k].name);
		else
			all[p] = cg_round(dtype, values[k].value);
	}
	cg_memory(memory, 0);
	return code;
}

/* Reads the values of params, and checks what can be checked without a cell; metadata_values checks the rest. */
static int read_values(const struct call *c, struct metadata_cell *m)
{
	int by_word = m->values != NULL;

	for (size_t f = 0; f < c->n_files; f++) {
		const char *text = all_of_cell(c, &c->files[f], "values");
		struct cg_value values[CG_PARAMS_MAX];
		char *memory = NULL;
		int n = 0, code = text ? values_read(text, &memory, values, &n) : CG_OK;

		cg_memory(memory, 0);
		if (code)
			return cg_fail_in(code, "%s: __metadata__", c->files[f].path);
		if (n && !attribute_find(c, "values") && !metadata_meaning(c, "cell"))
			return metadata_differ(c, "values", (struct statement){ c->files[f].path, text }, (struct statement){ by_op, "" });
		if (text && !by_word && (!m->values || strcmp(text, m->values) < 0))
			m->values = text;
	}
	return CG_OK;
}

int metadata_values(const struct call *c, const struct cg_cell *cell, int dtype, const char *values, int by_word)
{
	struct statement first = { by_word ? by_attribute : NULL, values };
	double ours[CG_PARAMS_MAX], theirs[CG_PARAMS_MAX];

	for (size_t f = 0; f < c->n_files; f++) {
		const struct statement next = { c->files[f].path, all_of_cell(c, &c->files[f], "values") };
		int same = 1, code;

		if (!next.what)
			continue;
		if (!first.by)
			first = next;
		if ((code = numbers(cell, dtype, first.what, ours)))
			return cg_fail_in(code, "%s", first.by);
		if ((code = numbers(cell, dtype, next.what, theirs)))
			return cg_fail_in(code, "%s", next.by);
		for (int p = 0; p < cell->n_params; p++)
			same &= ours[p] == theirs[p] || (isnan(ours[p]) && isnan(theirs[p]));
		if (!same)
			return metadata_differ(c, "values", first, next);
	}
	return CG_OK;
}

/* ---- all of it ---- */

/* Finds the cell that the files name. If a file's metadata has no digest of the cell and the cell's text cannot be read, there is no digest
 * to compare: NAME=VALUE must then name the cell. */
static int find_cell(const struct call *c, const struct named *first, struct metadata_cell *m)
{
	int any = attribute_find(c, "cell") != NULL;

	for (size_t f = 0; f < c->n_files; f++) {
		struct named n;

		CG_TRY(of_file(c, &c->files[f], &n));
		if (n.name && !n.known)
			return any ? cannot_open(&c->files[f], n.name) : choose_cell(c, &n, m);
	}
	return any ? open_cell(c, first->digest, m) : choose_cell(c, first, m);
}

int metadata_find_cell(const struct call *c, const char *word, struct metadata_cell *m)
{
	struct named first = { .by = by_attribute, .name = word };

	if (word && file_cell(word, 1, &m->cell, &m->parsed))
		return cg_fail_in(CG_BAD_ARGUMENT, "cell");
	if (word) {
		m->name = word;
		first.known = 1;
		first.digest = cg_cell_digest(m->cell);
	}
	CG_TRY(agree(c, &first));
	if (first.name && !word)
		CG_TRY(find_cell(c, &first, m));
	CG_TRY(read_options(c, m));
	return read_values(c, m);
}
