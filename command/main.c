/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `cellgrad` command: finds the subcommand, passes it the arguments, and does what every subcommand needs: makes jansson
 * allocate by the library's allocator, opens standard streams that are closed, and checks that the output was written. The subcommand
 * NAME is in the file NAME_command.c. No locale is set: numbers are read and written as in C.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command/command.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

struct command {
	const char *name;
	int (*call)(int argc, const char **argv);
	const char *line;
};

static const struct command commands[] = {
	{ "run",  command_run,  "compute an op on tensors from files; compare with expected ones" },
	{ "convert", command_convert, "convert network weights between the formats of programs" },
	{ "emit", command_emit, "print the source of a cell's kernel, and its manifest" },
	{ "cell", command_cell, "show what a cell is, what its passes do, and that its gradient is right" },
	{ "check", command_check, "check that a device computes the right answers" },
	{ "info", command_info, "show devices, ops and cells, and why a backend is not used" },
	{ "demo", command_demo, "show a derived kernel, compare with TensorFlow, train a model" },
	{ "bench", command_bench, "measure how long ops take, beside what the machine allows" },
	{ "cache", command_cache, "show and remove the compiled kernels on disk" },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* Prints where to report a bug, and the address of the home page, if ./configure was given these. */
static void print_contact(void)
{
	static const char report[] = CG_BUG_REPORT, url[] = CG_URL;

	if (*report)
		printf("Report bugs to: %s\n", report);
	if (*url)
		printf("Home page: %s\n", url);
}

static void help(void)
{
	printf("Usage: cellgrad COMMAND [ARGUMENT]...\n"
	       "Recurrent cells and their gradients, the same answers on every processor.\n\n");
	for (int k = 0; k < COMMANDS; k++)
		printf("  %-7s %s\n", commands[k].name, commands[k].line);
	printf("\n"
	       "  cellgrad COMMAND --help    print the options and examples of a command\n"
	       "  cellgrad help COMMAND      print the same help\n"
	       "  cellgrad --version         print the version\n"
	       "\n"
	       "CELLGRAD_BACKEND names the backend: cpu, opencl:0.0, cuda:1, or a list in order\n"
	       "of preference; unset: the first that opens and is not passed over.\n"
	       "Exit status: 0 success; 1 outputs differ, or the command failed while working;\n"
	       "2 the call was rejected before any work.\n");
	print_contact();
}

static int refuse(void)
{
	return command_fail("", CG_BAD_ARGUMENT, 0);
}

static int unknown(const char *word)
{
	static const char *const options[] = { "--help", "--version" };
	const char *names[COMMANDS], *nearest, *what = *word == '-' ? "option" : "command";

	for (int k = 0; k < COMMANDS; k++)
		names[k] = commands[k].name;
	nearest = *word == '-' ? cg_nearest(word, options, 2) : cg_nearest(word, names, COMMANDS);
	if (nearest)
		cg_fail(CG_BAD_ARGUMENT, "no %s \"%s\"; did you mean \"%s\"?", what, word, nearest);
	else
		cg_fail(CG_BAD_ARGUMENT, "no %s \"%s\"; cellgrad --help lists them", what, word);
	return refuse();
}

static const struct command *find(const char *word)
{
	for (int k = 0; k < COMMANDS; k++)
		if (!strcmp(word, commands[k].name))
			return &commands[k];
	return NULL;
}

/* "cellgrad help run OP" means "cellgrad run OP --help". */
static int help_on(int argc, const char **argv)
{
	const struct command *command = find(argv[1]);

	if (!command)
		return unknown(argv[1]);
	memmove(argv, argv + 1, (size_t)(argc - 1) * sizeof *argv);
	argv[argc - 1] = "--help";
	return command->call(argc, argv);
}

static int is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
}

static int dispatch(int argc, const char **argv)
{
	const struct command *command;

	if (argc < 2) {
		cg_fail(CG_BAD_ARGUMENT, "which command?  cellgrad --help lists them");
		return refuse();
	}
	if (is_help(argv[1]) && argc > 2 && !is_help(argv[2]))
		return help_on(argc - 1, argv + 1);
	if (is_help(argv[1])) {
		help();
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("cellgrad %s\n", cg_version());
		print_contact();
		return EXIT_OK;
	}
	command = find(argv[1]);
	return command ? command->call(argc - 1, argv + 1) : unknown(argv[1]);
}

/* Opens closed standard streams; otherwise a file that is opened later would get the number of a closed stream, and output would be
 * written into that file. */
static void guard_streams(void)
{
	static const int flags[] = { O_RDONLY, O_RDONLY, O_WRONLY };     /* flags with which a write to descriptor 1 fails and is reported */

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[fd]) < 0)
			_exit(EXIT_REFUSED);
	signal(SIGPIPE, SIG_IGN);
#ifdef SIGXFSZ
	signal(SIGXFSZ, SIG_IGN);
#endif
}

static void warn(const char *text)
{
	command_warn("", "%s", text);
}

int main(int argc, char **argv)
{
	int code, failed, why;

	guard_streams();
	print_json_memory();
	command_words(argc, (const char **)argv);
	cg_environment_warn(warn);
	code = dispatch(argc, (const char **)argv);
	failed = ferror(stdout);
	errno = 0;
	if (fflush(stdout) || failed || (fclose(stdout) && errno != EBADF)) {
		why = print_trouble() ? print_trouble() : errno;
		cg_fail(CG_FILE, "standard output: %s", why ? strerror(why) : "could not be written");
		command_fail("", CG_FILE, 1);
		if (code == EXIT_OK)
			code = EXIT_WORK;
	}
	return code;
}
