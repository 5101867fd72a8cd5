/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the subcommands share: their functions, exit codes, options, and the one way to fail.  A subcommand is a
 * function command_NAME() in NAME_command.c; main.c holds the table.  Functions that can fail return an
 * enum cg_status and leave the words to cg_message(), as the library's do; only command_fail() turns them
 * into an exit code and prints.
 */
#ifndef COMMAND_H
#define COMMAND_H

#include <popt.h>

#include "runtime/device/inspect.h"

enum {
	EXIT_OK      = 0,
	EXIT_WORK    = 1,                /* a mismatch, or failed while working */
	EXIT_REFUSED = 2                 /* before any work */
};

int command_run(int argc, const char **argv);
int command_emit(int argc, const char **argv);
int command_check(int argc, const char **argv);
int command_info(int argc, const char **argv);
int command_demo(int argc, const char **argv);
int command_bench(int argc, const char **argv);
int command_cache(int argc, const char **argv);
int command_convert(int argc, const char **argv);

/* Whether failures are printed as JSON: where --json is among the arguments. */
void command_words(int argc, const char *const *argv);
/* Prints "cellgrad run: " and this thread's message on standard error, or {"error": ..., "command": "run"}; the exit code.
 * working: the work had begun. */
int  command_fail(const char *command, int code, int working);
/* The message of a call of the library's in the command's words: without the name of the call, behind that of the option that it
 * was asked by; NULL: of none.  Returns code. */
int  command_reword(int code, const char *option);
/* As command_fail of what is no failure: one line, "cellgrad run: warning: ...", or {"warning": ..., "command": "run"}. */
void command_warn(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Warns where options that are off, with commas in `options`, take away what the cell reads of the step before.  how: what stands
 * before the options' names where the user gives them, as "--options ".  CG_NO_MEMORY. */
int  command_warn_recurrence(const char *command, const struct cg_cell *, const char *options, const char *how);

/* The names of a cell's options by their bits, with a few letters between them. */
enum { CELL_OPTIONS = 256 };
const char *cell_options(const struct cg_cell *, int options, const char *between, char text[CELL_OPTIONS]);

/* ---- options: popt's rows, each with a number from 1 on in val and NULL in arg ---- */

enum { OPTION_HELP = 1, OPTION_JSON, OPTION_FIRST, OPTION_MAX = 24 };
#define OPTION_VALUE(name, letter, number, what, value) { name, letter, POPT_ARG_STRING, NULL, number, what, value }
#define OPTION_FLAG(name, letter, number, what)         { name, letter, POPT_ARG_NONE, NULL, number, what, NULL }
#define OPTION_HELP_ROW OPTION_FLAG("help", 'h', OPTION_HELP, "show this help")
#define OPTION_JSON_ROW OPTION_FLAG("json", '\0', OPTION_JSON, "print JSON, one object per line")

struct options {
	char name[24];                   /* "cellgrad run" */
	poptContext popt;
	char *value[OPTION_MAX];         /* by number; NULL: not given; popt's own memory */
	const char **operands;           /* what is not an option, ends with NULL */
};
/* command: "run".  CG_BAD_ARGUMENT names an unknown option's nearest; then, too, the caller closes. */
int  options_open(struct options *, const char *command, int argc, const char **argv, const struct poptOption *);
/* Where in a list an option's word is; the message names the nearest, else them all. */
int  options_choose(const char *option, const char *word, const char *const *names, int n, int *choice);
/* usage: what follows "cellgrad run"; text: what stands after the list of options. */
void options_help(const struct options *, const char *usage, const char *text);
void options_close(struct options *);

#endif
