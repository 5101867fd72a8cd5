/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the subcommands share: their functions, exit status, options, and one way to fail. A subcommand is a function command_NAME()
 * in NAME_command.c; main.c has the table. Functions that can fail return an enum cg_status and leave the text in cg_message(), as
 * the library does; command_fail() prints that text and turns the code into an exit status.
 */
#ifndef COMMAND_H
#define COMMAND_H

#include <popt.h>

#include "runtime/device/inspect.h"

enum {
	EXIT_OK      = 0,
	EXIT_WORK    = 1,                /* outputs differ, the work failed, or, at any time, a driver failed or memory is exhausted */
	EXIT_REFUSED = 2                 /* refused before any work */
};

int command_run(int argc, const char **argv);
int command_emit(int argc, const char **argv);
int command_cell(int argc, const char **argv);
int command_check(int argc, const char **argv);
int command_info(int argc, const char **argv);
int command_demo(int argc, const char **argv);
int command_bench(int argc, const char **argv);
int command_cache(int argc, const char **argv);
int command_convert(int argc, const char **argv);

/* Reads the command line: errors and warnings are printed as JSON if --json is among the arguments before "--". */
void command_words(int argc, const char *const *argv);
/* Prints, for command "run", "cellgrad run: " and this thread's message to standard error, or {"error": ..., "command": "run"}, and returns
 * the exit status. working: the work had begun. */
int  command_fail(const char *command, int code, int working);
/* Rewords the message of a failed library call for the command's user: removes the name of the library's call, or `dtype`, at the message's
 * front, and puts the name of an option there; option = NULL: none. Returns `code`. */
int  command_reword(int code, const char *option);
/* Prints a warning the way command_fail prints an error; for command "run" the line is "cellgrad run: warning: ..." or {"warning": ...,
 * "command": "run"}. */
void command_warn(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Warns if the cell reads a state, or the output, of the step before only with options that are off. options: the names of the options that
 * are on, separated by commas. how: what the user writes before an option's name, such as "--options ". Returns CG_OK or CG_NO_MEMORY. */
int  command_warn_recurrence(const char *command, const struct cg_cell *, const char *options, const char *how);

/* Lists the names of those of the cell's options whose bits in `options` are set, separated by `between`. */
enum { CELL_OPTIONS = 256 };
const char *cell_options(const struct cg_cell *, int options, const char *between, char text[CELL_OPTIONS]);

/* ---- options: rows of popt, each with a number from 1 on in val and NULL in arg ---- */

enum { OPTION_HELP = 1, OPTION_JSON, OPTION_FIRST, OPTION_MAX = 24 };
#define OPTION_VALUE(name, letter, number, what, value) { name, letter, POPT_ARG_STRING, NULL, number, what, value }
#define OPTION_FLAG(name, letter, number, what)         { name, letter, POPT_ARG_NONE, NULL, number, what, NULL }
#define OPTION_HELP_ROW OPTION_FLAG("help", 'h', OPTION_HELP, "show this help")
#define OPTION_JSON_ROW OPTION_FLAG("json", '\0', OPTION_JSON, "print JSON, one object per line")

struct options {
	char name[24];                   /* "cellgrad run" */
	poptContext popt;
	/* the value of each option by the option's number, in memory of popt; a static text if the option takes no value; NULL: the option is
	 * not given */
	char *value[OPTION_MAX];
	const char **operands;           /* the words that are not options; ends with NULL */
};
/* Parses the options of a subcommand. command: its name, such as "run". CG_BAD_ARGUMENT: an option is unknown, and the message
 * suggests a known option that is near; or an option lacks its value, or a value is given twice. The caller closes the struct, also after
 * an error. */
int  options_open(struct options *, const char *command, int argc, const char **argv, const struct poptOption *);
/* Finds the value of an option in a list of words; *choice: its index there. The message of an error names the nearest word of the list,
 * or else all of them. */
int  options_choose(const char *option, const char *word, const char *const *names, int n, int *choice);
/* Reads the value of an option, a whole number from low to high; option: its name without the dashes. */
int  options_whole(const char *option, const char *word, int64_t low, int64_t high, int64_t *value);
/* Prints the help. usage: the words that follow the command's name, such as "cellgrad run"; text: the lines that follow the list of
 * options. */
void options_help(const struct options *, const char *usage, const char *text);
void options_close(struct options *);

#endif
