/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kernels by the program's own runtime, here the system's C compiler and this program's memory: a step of an LSTM in a sequence, and
 * its gradient.  The library generates the text of the kernels and a manifest.  The program reads the function's name, its arguments and
 * the compiler's flags from the manifest, compiles the text to a library, and runs a sequence forward and backward.  At each step the
 * program compares every bit of the results with those of cellgrad on the backend that CELLGRAD_BACKEND names.  $CC names the compiler; the
 * default is cc.
 */
#define _XOPEN_SOURCE 700
#include <cellgrad.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 20, ROWS = 5, UNITS = 37, N = ROWS * UNITS, ARGUMENTS = 64, ROOMS = 32, NAME = 32 };

/* A kernel: its description from the manifest, and the compiled function. */
struct argument { char name[NAME], kind[NAME], type[NAME], flow[NAME]; };
struct foreign {
	struct cg_kernel kernel;
	char function[2 * NAME], flags[256];
	struct argument arguments[ARGUMENTS];
	int n;
	void *library, (*call)(void **at);
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "own_runtime: %s: %s\n", what, why);
	exit(1);
}

static void check(int status)
{
	if (status)
		die("cellgrad", cg_message());
}

/* ---- the manifest: JSON with one argument on each line ---- */

/* Reads the string value of a JSON key, which is searched from `at` on; returns the end of the value. */
static const char *string_of(const char *at, const char *key, char *out, size_t room)
{
	char quoted[NAME];
	size_t n;

	snprintf(quoted, sizeof quoted, "\"%s\": \"", key);
	at = strstr(at, quoted);
	if (!at)
		die("manifest: expected", key);
	at += strlen(quoted);
	n = strcspn(at, "\"");
	if (n >= room)
		die("manifest: too long", key);
	memcpy(out, at, n);
	out[n] = '\0';
	return at + n;
}

/* Reads the manifest's first function, which computes elements; the functions after it sum over rows. */
static void read_manifest(struct foreign *f, const char *json)
{
	const char *at = strstr(json, "\"flags\": ["), *end;
	size_t n = 0;

	for (at = at ? at + 10 : "]"; *at != ']' && n + 1 < sizeof f->flags; at++)
		if (*at != '"' && *at != ',')
			f->flags[n++] = *at;
	at = string_of(json, "function", f->function, sizeof f->function);
	at = strstr(at, "\"arguments\": [");
	end = at ? strchr(at + 14, ']') : NULL;
	if (!end)
		die("manifest", "expected arguments");
	for (; (at = strchr(at, '{')) && at < end && f->n < ARGUMENTS; f->n++) {
		struct argument *a = &f->arguments[f->n];

		at = string_of(at, "name", a->name, NAME);
		at = string_of(at, "kind", a->kind, NAME);
		at = string_of(at, "type", a->type, NAME);
		at = string_of(at, "flow", a->flow, NAME);
	}
}

/* ---- the compiler ---- */

/* Writes to a file the kernel's text, followed by a function that takes the arguments in an array, in the order of the manifest, and
 * calls the kernel with them. */
static void write_source(const struct foreign *f, const char *text, const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		die(path, "cannot be written");
	fprintf(file, "%s\nvoid call(void **at)\n{\n\t%s(", text, f->function);
	for (int k = 0; k < f->n; k++)
		fprintf(file, "%s%sat[%d]", k ? ", " : "", strcmp(f->arguments[k].type, "i64") ? "" : "*(int64_t *)", k);
	fprintf(file, ");\n}\n");
	if (fclose(file))
		die(path, "cannot be written");
}

static void compile(struct foreign *f, const char *text)
{
	const char *cc = getenv("CC"), *scratch = getenv("TMPDIR");
	char folder[256], source[300], library[300], command[2048];

	snprintf(folder, sizeof folder, "%s/own_runtime-XXXXXX", scratch && *scratch ? scratch : P_tmpdir);
	if (!mkdtemp(folder))
		die(folder, "cannot be made");
	snprintf(source, sizeof source, "%s/kernel.c", folder);
	snprintf(library, sizeof library, "%s/kernel.so", folder);
	write_source(f, text, source);
	snprintf(command, sizeof command, "%s -std=c11 %s -shared -fPIC -o %s %s", cc && *cc ? cc : "cc", f->flags, library, source);
	if (system(command))
		die("failed", command);
	f->library = dlopen(library, RTLD_NOW);
	if (!f->library)
		die(library, dlerror());
	*(void **)&f->call = dlsym(f->library, "call");
	unlink(library);
	unlink(source);
	rmdir(folder);
}

static struct foreign kernel(enum cg_pass pass)
{
	struct foreign f = { .kernel = { cg_cell_find("lstm"), NULL, 0, pass, CG_F32, CG_POINT } };
	char *text, *json;

	check(cg_kernel_emit(&f.kernel, "c", &text));
	check(cg_kernel_manifest(&f.kernel, "c", &json));
	read_manifest(&f, json);
	compile(&f, text);
	printf("function %s: %d arguments, compiled with the flags %s\n", f.function, f.n, f.flags);
	cg_text_free(json);
	cg_text_free(text);
	return f;
}

/* ---- the memory of a step, by the names in the manifest ---- */

struct memory { struct { char name[NAME]; float data[N]; } rooms[ROOMS]; int n; };

static float *find(struct memory *m, const char *name)
{
	for (int k = 0; k < m->n; k++)
		if (!strcmp(m->rooms[k].name, name))
			return m->rooms[k].data;
	return NULL;
}

static float *room(struct memory *m, const char *name)
{
	if (find(m, name))
		return find(m, name);
	if (m->n == ROOMS)
		die("too many tensors", name);
	strcpy(m->rooms[m->n].name, name);
	return m->rooms[m->n++].data;
}

/* ---- both ways to run a kernel ---- */

static void run_foreign(const struct foreign *f, struct memory *m)
{
	static int64_t rows = ROWS, units = UNITS;
	void *at[ARGUMENTS];

	for (int k = 0; k < f->n; k++) {
		const struct argument *a = &f->arguments[k];

		at[k] = !strcmp(a->kind, "tensor") ? (void *)room(m, a->name) : !strcmp(a->name, "rows") ? &rows : &units;
	}
	f->call(at);
}

static void run_ours(const struct foreign *f, struct memory *m, struct cg_stream *stream)
{
	struct cg_arg args[ARGUMENTS];
	int n = 0;

	for (int k = 0; k < f->n; k++)
		if (!strcmp(f->arguments[k].kind, "tensor"))
			args[n++] = (struct cg_arg){ f->arguments[k].name,
			                             { room(m, f->arguments[k].name), 0, N * sizeof(float), CG_HOST }, UNITS, 0 };
	check(cg_kernel_run(stream, &f->kernel, ROWS, UNITS, args, n));
}

/* ---- the sequence ---- */

/* Fills the inputs that a step lacks: the input named `carried` with the tensor `from` of the neighbouring step, or with zeros if there is
 * none; any other input with new numbers. */
static void prepare(const struct foreign *f, struct memory *m, struct memory *beside, const char *carried, const char *from)
{
	static unsigned chance;

	for (int k = 0; k < f->n; k++) {
		const struct argument *a = &f->arguments[k];

		if (strcmp(a->kind, "tensor") || strcmp(a->flow, "in") || find(m, a->name))
			continue;
		if (strcmp(a->name, carried))
			for (int n = 0; n < N; n++)
				room(m, a->name)[n] = 1e-9f * (float)(int32_t)(chance = 1664525u * chance + 1013904223u);
		else if (beside)
			memcpy(room(m, a->name), room(beside, from), N * sizeof(float));
	}
}

/* Runs the step by the compiled function, runs a copy of the step by the library, and compares the results of both. */
static void run(const struct foreign *f, struct memory *m, struct cg_stream *stream)
{
	static struct memory ours;

	ours = *m;
	run_foreign(f, m);
	run_ours(f, &ours, stream);
	if (memcmp(&ours, m, sizeof ours))
		die(f->function, "the results have other bits than the library's");
}

int main(void)
{
	static struct memory steps[STEPS];
	const struct foreign forward = kernel(CG_SEQ_FORWARD), grad = kernel(CG_SEQ_GRAD);
	struct cg_context *context;
	struct cg_stream *stream;

	check(cg_open(NULL, &context));
	check(cg_stream_open(context, NULL, &stream));
	for (int t = 0; t < STEPS; t++) {
		prepare(&forward, &steps[t], t ? &steps[t - 1] : NULL, "c_prev", "c");
		run(&forward, &steps[t], stream);
	}
	for (int t = STEPS - 1; t >= 0; t--) {
		prepare(&grad, &steps[t], t < STEPS - 1 ? &steps[t + 1] : NULL, "dc", "dc_prev");
		run(&grad, &steps[t], stream);
	}
	printf("%d steps forward and backward: the first element of h is %.9g after the last step, that of dc_prev %.9g at the first step; "
	       "all %d tensors of each step with the library's bits\n",
	       STEPS, (double)*room(&steps[STEPS - 1], "h"), (double)*room(&steps[0], "dc_prev"), steps[0].n);
	cg_stream_close(stream);
	cg_close(context);
	dlclose(forward.library);
	dlclose(grad.library);
	return 0;
}
