/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the messages of a subcommand to standard error: why it failed, or a warning. With --json on the command line each message is one
 * JSON object on a line.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "command/command.h"
#include "command/output.h"

static int as_json;

void command_words(int argc, const char *const *argv)
{
	as_json = 0;
	for (int k = 1; k < argc && strcmp(argv[k], "--"); k++)
		as_json |= !strcmp(argv[k], "--json");
}

/* kind: "error" or "warning". */
static void print_failure(const char *kind, const char *command, const char *text)
{
	if (as_json) {
		fprintf(stderr, "{\"%s\":", kind);
		print_quoted(stderr, text);
		fputs(",\"command\":", stderr);
		print_quoted(stderr, command);
		fputs("}\n", stderr);
		return;
	}
	fprintf(stderr, "cellgrad%s%s: %s", *command ? " " : "", command, strcmp(kind, "error") ? "warning: " : "");
	print_plain(stderr, text);
	fputc('\n', stderr);
}

int command_fail(const char *command, int code, int working)
{
	print_failure("error", command, cg_message());
	return working || code == CG_DRIVER || code == CG_NO_MEMORY ? EXIT_WORK : EXIT_REFUSED;
}

void command_warn(const char *command, const char *format, ...)
{
	char text[CG_MESSAGE_MAX];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	print_failure("warning", command, text);
}

/* The length of the prefix of a message of the library, the name of a call, cg_..., or of the argument `dtype`, with ": "; 0: none. */
static size_t prefix(const char *message)
{
	size_t n = strncmp(message, "cg_", 3) ? strncmp(message, "dtype:", 6) ? 0 : 5 : strspn(message, "abcdefghijklmnopqrstuvwxyz_");

	return n && !strncmp(message + n, ": ", 2) ? n + 2 : 0;
}

int command_reword(int code, const char *own)
{
	const char *message = cg_message();
	char text[CG_MESSAGE_MAX];
	size_t n = 0;

	/* A message about several backends has a part for each, separated by "; ". */
	for (const char *at = message; *at && n < sizeof text - 1; at++) {
		if (at == message || (at >= message + 2 && at[-2] == ';' && at[-1] == ' '))
			at += prefix(at);
		if (!*at)
			break;
		text[n++] = *at;
	}
	text[n] = '\0';
	return own ? cg_fail(code, "%s: %s", own, text) : cg_fail(code, "%s", text);
}
