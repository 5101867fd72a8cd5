/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds lines in memory and writes each to standard error by one call, so that the lines of threads do not mix.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/core/core.h"

double cg_milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

void cg_line_add(char *line, size_t capacity, const char *format, ...)
{
	size_t n = strlen(line);
	va_list list;

	va_start(list, format);
	vsnprintf(line + n, capacity - n, format, list);
	va_end(list);
}

void cg_line_add_plain(char *line, size_t capacity, const char *text)
{
	size_t n = strlen(line);

	for (; *text && n + 1 < capacity; text++)
		line[n++] = (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text;
	line[n] = '\0';
}

void cg_line_write(char *line)
{
	strcat(line, "\n");
	fputs(line, stderr);
}
