/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles CUDA C by the host's C++ compiler: the unchanged text, between kernel.h and a list of its kernels. Compiled images are kept in
 * the folder `cache` beside the folder of this library.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvrtc.h"
#include "misuse_report.h"

extern char **environ;

static char *print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *print(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		abort();
	va_end(arguments);
	return text;
}

/* ---- which kernels a text has ---- */

/* Returns `at`, moved behind the blanks and comments that begin there. */
static const char *skip(const char *at)
{
	for (;;) {
		const char *end;

		at += strspn(at, " \t\r\n\f\v");
		if (!strncmp(at, "//", 2))
			at += strcspn(at, "\n");
		else if (!strncmp(at, "/*", 2) && (end = strstr(at + 2, "*/")))
			at = end + 2;
		else
			return at;
	}
}

static size_t word_length(const char *at)
{
	size_t n = 0;

	while (isalnum((unsigned char)at[n]) || at[n] == '_')
		n++;
	return n;
}

/* Returns the place behind the parenthesis that closes the opening one at `at`. */
static const char *past_parentheses(const char *at)
{
	int deep = 0;

	do
		deep += *at == '(', deep -= *at == ')';
	while (*at++ && deep);
	return at;
}

/* Writes a row for the kernel whose __global__ is at `at`; the kernel's name is the first word before parentheses that is no attribute. */
static void list_kernel(FILE *to, const char *at, int barriers)
{
	char threads[200] = "0";

	for (at = skip(at + strlen("__global__")); *at && *at != '{' && *at != ';'; at = skip(at)) {
		size_t n = word_length(at);
		const char *after = skip(at + (n ? n : 1));

		if (!n || *after != '(') {
			at += n ? n : 1;
			continue;
		}
		if (strncmp(at, "__launch_bounds__", n) && strncmp(at, "__attribute__", n) && strncmp(at, "__align__", n)) {
			fprintf(to, "\tFAKE_KERNEL(%.*s, %s, %d),\n", (int)n, at, threads, barriers);
			return;
		}
		if (!strncmp(at, "__launch_bounds__", n))
			snprintf(threads, sizeof threads, "%.*s", (int)strcspn(after + 1, ",)"), after + 1);
		at = past_parentheses(after);
	}
}

/* Writes the source that the compiler gets: the text, then a list of the text's kernels. */
static void write_source(FILE *to, const char *text, const char *name)
{
	int barriers = strstr(text, "__syncthreads") != NULL;

	fprintf(to, "#line 1 \"");
	for (const char *c = name; *c; c++)
		fprintf(to, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	fprintf(to, "\"\n%s\n#line 1 \"stand-in\"\n#pragma GCC visibility push(hidden)\n"
	        "extern \"C\" { extern const fake_kernel fake_kernels[]; }\nconst fake_kernel fake_kernels[] = {\n", text);
	for (const char *at = skip(text); *at; at = skip(at)) {
		size_t n = word_length(at);

		if (n == strlen("__global__") && !strncmp(at, "__global__", n))
			list_kernel(to, at, barriers);
		at += n ? n : 1;
	}
	fprintf(to, "\t{}\n};\n");
}

/* ---- files ---- */

static char *read_file(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "rb");
	char *data = NULL;
	long n;

	if (!file)
		return NULL;
	if (!fseek(file, 0, SEEK_END) && (n = ftell(file)) >= 0 && (data = malloc((size_t)n + 1))) {
		rewind(file);
		*bytes = fread(data, 1, (size_t)n, file);
		data[*bytes] = 0;
	}
	fclose(file);
	return data;
}

/* Returns the parent of the folder that has this library. */
static const char *home(void)
{
	static char path[PATH_MAX];
	Dl_info info;

	if (!*path && dladdr((void *)home, &info) && realpath(info.dli_fname, path))
		for (int k = 0; k < 2 && strrchr(path, '/'); k++)
			*strrchr(path, '/') = 0;
	return path;
}

/* ---- compiling ---- */

/* The compiler's options in every compilation. */
static const char *const common[] = {
	"-std=c++17", "-w", "-g0", "-fPIC", "-shared", "-nostdlib", "-nostdinc", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
	"-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-U_FORTIFY_SOURCE",
	"-fsanitize=kernel-address,bounds,alignment,integer-divide-by-zero",
	"-fno-gnu-unique", "--param=asan-instrumentation-with-call-threshold=0", "--param=asan-stack=0", "--param=asan-globals=0",
};

/* Neither level of optimisation removes a check of a sanitizer. -Og compiles in half the time of -O1, but does not fuse operations. */
static const char *const optimisations[][4] = {
	{ "-Og", "-ffp-contract=off" }, { "-O1", "-ffp-contract=fast", "-fexpensive-optimizations" },
};

enum { MOST_WORDS = 100 };

/* Runs the C++ compiler without LD_* and CPATH, which are meant for the tested program, and with TMPDIR set to `folder`; the compiler's
   messages go to the file `log`. */
static int compile(char **arguments, const char *log, const char *folder)
{
	posix_spawn_file_actions_t files;
	char *set = print("TMPDIR=%s", folder), *saved[1024];
	size_t n = 0;
	pid_t child;
	int status = -1, failed;

	for (char **e = environ; *e && n < 1000; e++)
		if (strncmp(*e, "LD_", 3) && strncmp(*e, "TMPDIR=", 7) && strncmp(*e, "CPATH=", 6))
			saved[n++] = *e;
	saved[n++] = set;
	saved[n] = NULL;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	failed = posix_spawnp(&child, arguments[0], &files, NULL, arguments, saved);
	posix_spawn_file_actions_destroy(&files);
	free(set);
	if (failed)
		return 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static int has_fma(void)
{
#if defined __x86_64__
	return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#else
	return 0;
#endif
}

/* Compiles kernel.cc in a folder to kernel.so there; returns the log, and in *done whether the compilation succeeded. */
static char *run_compiler(const char *folder, const struct options *o, int *done)
{
	char *arguments[MOST_WORDS], compiler[] = FAKE_CXX, *rest = compiler, *word, *log;
	char *source = print("%s/kernel.cc", folder), *object = print("%s/kernel.so", folder), *log_path = print("%s/log", folder);
	char *prelude = print("%s/kernel.h", home()), *calls = print("%s/kernel_calls.o", home());
	size_t n = 0, bytes;

	while ((word = strsep(&rest, " ")) && n < 8)
		if (*word)
			arguments[n++] = word;
	for (size_t k = 0; k < sizeof common / sizeof *common; k++)
		arguments[n++] = (char *)(uintptr_t)common[k];
	for (const char *const *flag = optimisations[o->fuse]; *flag; flag++)
		arguments[n++] = (char *)(uintptr_t)*flag;
	if (has_fma())
		arguments[n++] = "-mfma";
	for (int k = 0; k < o->n_flags; k++)
		arguments[n++] = (char *)(uintptr_t)o->flags[k];
	for (char **last = (char *[]){ "-include", prelude, source, calls, "-lm", "-o", object, NULL }; *last; last++)
		arguments[n++] = *last;
	arguments[n] = NULL;
	*done = compile(arguments, log_path, folder);
	log = read_file(log_path, &bytes);
	free(source);
	free(object);
	free(log_path);
	free(prelude);
	free(calls);
	return log ? log : print("the stand-in could not run %s\n", FAKE_CXX);
}

static void remove_folder(const char *folder)
{
	static const char *const names[] = { "kernel.cc", "kernel.so", "log", "image" };

	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		char *path = print("%s/%s", folder, names[k]);

		unlink(path);
		free(path);
	}
	rmdir(folder);
}

/* Do kernels of the text flush subnormals to zero? Kernels of a text with doubles do not: such a text does no arithmetic in float, and the
   processor's flag that flushes floats would flush doubles, too, which a device does not do. */
static int flushes(const char *text, const struct options *o)
{
	return o->flush && !strstr(text, "double");
}

static struct fake_image *make_image(const char *folder, const char *text, const struct options *o)
{
	char *path = print("%s/kernel.so", folder);
	size_t bytes = 0;
	char *object = read_file(path, &bytes);
	struct fake_image *image = object ? malloc(sizeof *image + bytes) : NULL;

	if (image) {
		*image = (struct fake_image){ FAKE_IMAGE_MAGIC, bytes, fake_sum(object, bytes), o->arch, fake_version(), flushes(text, o),
		                              o->is_virtual };
		memcpy(image + 1, object, bytes);
	}
	free(object);
	free(path);
	return image;
}

static struct fake_image *build(const char *text, const char *name, const struct options *o, const char *saved, char **log)
{
	char *folder = print("%s/cache/XXXXXX", home()), *path;
	struct fake_image *image = NULL;
	FILE *file;
	int done = 0;

	if (!mkdtemp(folder)) {
		*log = print("the stand-in cannot make a folder in %s/cache: %s\n", home(), strerror(errno));
		free(folder);
		return NULL;
	}
	path = print("%s/kernel.cc", folder);
	file = fopen(path, "w");
	if (file) {
		write_source(file, text, name);
		if (!fclose(file))
			*log = run_compiler(folder, o, &done);
	}
	free(path);
	if (done)
		image = make_image(folder, text, o);
	path = print("%s/image", folder);
	file = image ? fopen(path, "wb") : NULL;
	if (file && fwrite(image, sizeof *image + image->bytes, 1, file) == 1 && !fclose(file))
		rename(path, saved);
	free(path);
	remove_folder(folder);
	free(folder);
	return image;
}

/* ---- what was compiled before ---- */

static char *longer(char *key, const char *part)
{
	char *both = print("%s%s\n", key, part);

	free(key);
	return both;
}

/* Returns the key of an image in the cache: a text with all that determines the image, except the compiler's version and the processor. */
static char *key_of(const char *text, const char *name, const struct options *o)
{
	static const char *const parts[] = { "kernel.h", "kernel_calls.o" };
	char *key = print("%s\n%d %d %d %d %d %s\n%s\n", FAKE_CXX, o->arch, o->is_virtual, o->flush, o->fuse, fake_version(), name,
	                  text);

	for (size_t k = 0; k < sizeof common / sizeof *common; k++)
		key = longer(key, common[k]);
	for (const char *const *flag = optimisations[o->fuse]; *flag; flag++)
		key = longer(key, *flag);
	for (int k = 0; k < o->n_flags; k++)
		key = longer(key, o->flags[k]);
	for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
		char *path = print("%s/%s", home(), parts[k]), sum[20];
		size_t bytes = 0;
		char *data = read_file(path, &bytes);

		snprintf(sum, sizeof sum, "%llx", data ? (unsigned long long)fake_sum(data, bytes) : 0);
		key = longer(key, sum);
		free(data);
		free(path);
	}
	return key;
}

struct fake_image *fake_compile(const char *text, const char *name, const struct options *o, char **log)
{
	char *key = key_of(text, name, o), *saved;
	struct fake_image *image;
	size_t bytes = 0;

	saved = print("%s/cache/%016llx%08lx", home(), (unsigned long long)fake_sum(key, strlen(key)), (unsigned long)strlen(key));
	image = (struct fake_image *)(void *)read_file(saved, &bytes);
	*log = NULL;
	if (!image)
		image = build(text, name, o, saved, log);
	free(saved);
	free(key);
	return image;
}
