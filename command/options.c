/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a subcommand's arguments by popt and keeps the options' values by number. This file also does what popt does not: it refuses an
 * option that takes a value and is given twice, and prints the help without ending the program.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/inspect.h"
#include "command/claim.h"
#include "command/command.h"
#include "command/output.h"

static char flag[] = "";                 /* the value of an option that takes no argument */

static const struct poptOption *row_of(const struct poptOption *table, int number)
{
	while (table->val != number)
		table++;
	return table;
}

/* The long option whose name is nearest to an unknown word such as "--ouput=x", or NULL. */
static const char *nearest(const char *word, const struct poptOption *table)
{
	const char *names[OPTION_MAX];
	char name[32];
	int n = 0;

	word += strspn(word, "-");
	if ((size_t)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word) >= sizeof name)
		return NULL;
	for (; table->longName; table++)
		names[n++] = table->longName;
	return cg_nearest(name, names, n);
}

static int bad(poptContext popt, int code, const struct poptOption *table)
{
	char shown[PRINT_NAME];
	const char *word = poptBadOption(popt, POPT_BADOPTION_NOALIAS), *name;

	print_name(shown, word);
	if (code != POPT_ERROR_BADOPT)
		return cg_fail(CG_BAD_ARGUMENT, "%s: %s", shown, poptStrerror(code));
	name = nearest(word, table);
	if (name)
		return cg_fail(CG_BAD_ARGUMENT, "no option %s; did you mean --%s?", shown, name);
	return cg_fail(CG_BAD_ARGUMENT, "no option %s; --help lists them", shown);
}

int options_open(struct options *o, const char *command, int argc, const char **argv,
                 const struct poptOption *table)
{
	static const char *none[] = { NULL };
	int number;

	*o = (struct options){ .operands = none };
	snprintf(o->name, sizeof o->name, "cellgrad %s", command);
	argv[0] = o->name;                               /* popt prints argv[0] as the program's name in its help */
	o->popt = poptGetContext(NULL, argc, argv, table, 0);
	if (!o->popt)
		return cg_fail(CG_NO_MEMORY, "no memory for the options");
	while ((number = poptGetNextOpt(o->popt)) > 0) {
		const struct poptOption *row = row_of(table, number);

		if (row->argInfo == POPT_ARG_NONE) {
			o->value[number] = flag;
			continue;
		}
		if (o->value[number])
			return cg_fail(CG_BAD_ARGUMENT, "--%s is given twice", row->longName);
		o->value[number] = poptGetOptArg(o->popt);
		if (!o->value[number] || !*o->value[number])
			return cg_fail(CG_BAD_ARGUMENT, "--%s needs a value", row->longName);
	}
	if (number < -1)
		return bad(o->popt, number, table);
	if (poptPeekArg(o->popt))
		o->operands = poptGetArgs(o->popt);
	return CG_OK;
}

int options_choose(const char *option, const char *word, const char *const *names, int n, int *choice)
{
	char shown[PRINT_NAME], all[256] = "";
	const char *nearest;

	for (*choice = 0; *choice < n; ++*choice)
		if (!strcmp(word, names[*choice]))
			return CG_OK;
	nearest = cg_nearest(word, names, n);
	print_name(shown, word);
	if (nearest)
		return cg_fail(CG_BAD_ARGUMENT, "%s: there is no value \"%s\"; did you mean %s?", option, shown, nearest);
	for (int k = 0; k < n; k++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? ", " : "", names[k]);
	return cg_fail(CG_BAD_ARGUMENT, "%s: there is no value \"%s\"; there are %s", option, shown, all);
}

int options_whole(const char *option, const char *word, int64_t low, int64_t high, int64_t *value)
{
	char shown[PRINT_NAME], *end;
	long long number;

	errno = 0;
	number = strtoll(word, &end, 10);
	if (*end || word[0] < '0' || word[0] > '9' || errno || number < low || number > high)
		return cg_fail(CG_BAD_ARGUMENT, "--%s: expected a whole number from %lld to %lld, got \"%s\"", option,
		               (long long)low, (long long)high, print_name(shown, word));
	*value = number;
	return CG_OK;
}

void options_help(const struct options *o, const char *usage, const char *text)
{
	poptSetOtherOptionHelp(o->popt, usage);
	poptPrintHelp(o->popt, stdout, 0);
	printf("\n%s", text);
}

void options_close(struct options *o)
{
	for (int k = 0; k < OPTION_MAX; k++)
		if (o->value[k] != flag)
			free(o->value[k]);               /* allocated by popt */
	if (o->popt)
		poptFreeContext(o->popt);
	claim_end_all();
}
