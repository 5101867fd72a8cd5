/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of mistakes, which all stand-ins write to one file; calls that fail on request; random choices. */
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "misuse_report.h"

void fake_report(const char *format, ...)
{
	const char *path = getenv("CELLGRAD_FAKE_REPORT");
	char line[1024];
	va_list arguments;
	int used, file = 2;

	va_start(arguments, format);
	used = vsnprintf(line, sizeof line - 1, format, arguments);
	va_end(arguments);
	if (used > (int)sizeof line - 2)
		used = sizeof line - 2;
	line[used++] = '\n';
	if (path && *path && (file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0)
		file = 2;
	/* The line is written by one call of write, so that lines of several processes stay whole. */
	if (write(file, line, (size_t)used) != used)
		abort();
	if (file != 2)
		close(file);
}

long fake_setting(const char *name, long otherwise)
{
	char whole[64];
	const char *value;

	snprintf(whole, sizeof whole, "CELLGRAD_FAKE_%s", name);
	value = getenv(whole);
	return value && *value ? strtol(value, NULL, 0) : otherwise;
}

int fake_version(void)
{
	const char *value = getenv("CELLGRAD_FAKE_CUDA");
	int major = 13, minor = 0;

	if (value)
		sscanf(value, "%d.%d", &major, &minor);
	return major * 1000 + minor * 10;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t fake_random(uint32_t below)
{
	static uint64_t state;
	const char *seed = getenv("CELLGRAD_TEST_SEED");
	uint64_t word;

	pthread_mutex_lock(&lock);
	if (!state)
		state = (seed ? strtoull(seed, NULL, 10) : 1) * 2 + 1;
	state += UINT64_C(0x9e3779b97f4a7c15);
	word = state;
	pthread_mutex_unlock(&lock);
	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((word >> 32) * below >> 32);
}

/* ---- failing on request ---- */

/* Each rule of CELLGRAD_FAKE_FAIL counts the calls that match it; when the variable changes, the counts start again. */
enum { RULES = 16 };
static struct { char name[64]; long n, seen; int code; } rules[RULES];
static char read_from[1024];

static void read_rules(const char *text)
{
	char copy[sizeof read_from], *rest = copy, *word;

	snprintf(read_from, sizeof read_from, "%s", text);
	snprintf(copy, sizeof copy, "%s", text);
	memset(rules, 0, sizeof rules);
	for (int k = 0; k < RULES && (word = strsep(&rest, ",")); k++) {
		char *colon = strchr(word, ':');
		int named = *word < '0' || *word > '9';

		snprintf(rules[k].name, sizeof rules[k].name, "%.*s", named ? (int)strcspn(word, ":") : 1, named ? word : "*");
		if (named)
			word = colon ? colon + 1 : word + strlen(word);
		rules[k].n = *word ? strtol(word, &word, 10) : 1;
		rules[k].code = *word == ':' ? atoi(word + 1) : 0;
	}
}

int fake_refused(const char *call, int usual)
{
	const char *text = getenv("CELLGRAD_FAKE_FAIL");
	int code = 0;

	if (!text || !*text)
		text = "";
	if (!*text && !*read_from)
		return 0;
	pthread_mutex_lock(&lock);
	if (strcmp(text, read_from))
		read_rules(text);
	for (int k = 0; k < RULES && *rules[k].name; k++)
		if (!fnmatch(rules[k].name, call, 0) && ++rules[k].seen == rules[k].n)
			code = rules[k].code ? rules[k].code : usual;
	pthread_mutex_unlock(&lock);
	return code;
}
