/*
 * The `cellgrad` command: finds the subcommand, hands it its words, and sees to what every subcommand needs:
 * our memory under jansson, standard streams that are there, and an answer that reached its reader.  What a
 * subcommand does is in the file of its name.  No locale is set: numbers are read and written as in C.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gen/cell.h"
#include "runtime/command/command.h"
#include "runtime/command/print.h"
#include "runtime/environment.h"

struct command {
	const char *name;
	int (*call)(int argc, const char **argv);
	const char *line;
};

static const struct command commands[] = {
	{ "run",  command_run,  "compute an op on tensors from files, compare with expected ones" },
	{ "convert", command_convert, "weights from the format of one program into another's" },
	{ "emit", command_emit, "write the source of a cell's kernel, and its manifest" },
	{ "check", command_check, "compare this machine's answers with the reference, and its kernels' bits" },
	{ "info", command_info, "show devices, ops and cells, and why a backend cannot be used" },
	{ "demo", command_demo, "show a derived kernel, compare with TensorFlow, train a model" },
	{ "bench", command_bench, "how long ops take, next to what the machine could do" },
	{ "cache", command_cache, "where compiled kernels are kept on disk, and which" },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

int command_failed(const char *command, int code, int working)
{
	fprintf(stderr, "cellgrad%s%s: ", *command ? " " : "", command);
	print_plain(stderr, cg_message());
	fputc('\n', stderr);
	return working || code == CG_DRIVER || code == CG_NO_MEMORY ? EXIT_WORK : EXIT_REFUSED;
}

static void help(void)
{
	printf("Usage: cellgrad COMMAND [ARGUMENT]...\n"
	       "Recurrent cells and their gradients, the same answers on every processor.\n\n");
	for (int k = 0; k < COMMANDS; k++)
		printf("  %-7s %s\n", commands[k].name, commands[k].line);
	printf("\n"
	       "  cellgrad COMMAND --help    options and examples of a command\n"
	       "  cellgrad --version\n"
	       "\n"
	       "CELLGRAD_BACKEND names the backend to use: cpu, opencl:0.0, cuda:1, or a list in\n"
	       "order of preference; unset: the first that opens.\n"
	       "Exit status: 0 done; 1 a mismatch, or failed while working; 2 refused before\n"
	       "any work.\n");
}

static int unknown(const char *word)
{
	const char *names[COMMANDS], *nearest;

	for (int k = 0; k < COMMANDS; k++)
		names[k] = commands[k].name;
	nearest = cg_nearest(word, names, COMMANDS);
	if (nearest)
		cg_fail(CG_BAD_ARGUMENT, "no command \"%s\"; did you mean \"%s\"?", word, nearest);
	else
		cg_fail(CG_BAD_ARGUMENT, "no command \"%s\"; cellgrad --help lists them", word);
	return command_failed("", CG_BAD_ARGUMENT, 0);
}

static int dispatch(int argc, const char **argv)
{
	if (argc < 2) {
		cg_fail(CG_BAD_ARGUMENT, "which command?  cellgrad --help lists them");
		return command_failed("", CG_BAD_ARGUMENT, 0);
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help();
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("cellgrad %s\n", cg_version());
		return EXIT_OK;
	}
	for (int k = 0; k < COMMANDS; k++)
		if (!strcmp(argv[1], commands[k].name))
			return commands[k].call(argc - 1, argv + 1);
	return unknown(argv[1]);
}

/* A closed standard stream lends its number to the next file opened, and what is printed would go there. */
static void guard_streams(void)
{
	static const int flags[] = { O_RDONLY, O_RDONLY, O_WRONLY };     /* to write to 1 is to fail, noticed */

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[fd]) < 0)
			_exit(EXIT_REFUSED);
	signal(SIGPIPE, SIG_IGN);
#ifdef SIGXFSZ
	signal(SIGXFSZ, SIG_IGN);
#endif
}

int main(int argc, char **argv)
{
	int code, failed;

	guard_streams();
	print_json_memory();
	cg_environment_warn();
	code = dispatch(argc, (const char **)argv);
	errno = 0;
	failed = ferror(stdout);
	if (fflush(stdout) || failed || (fclose(stdout) && errno != EBADF)) {
		fprintf(stderr, "cellgrad: standard output: %s\n",
		        errno ? strerror(errno) : "could not be written");
		if (code == EXIT_OK)
			code = EXIT_WORK;
	}
	return code;
}
