/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error messages: one static buffer per thread, so that setting a message allocates no memory.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/core/core.h"

enum { CAPACITY = CG_MESSAGE_MAX };      /* longer messages, such as those with compiler logs, are cut: a log's first errors matter most */

static _Thread_local char message[CAPACITY];

/* Puts dots at the end of a text that was too long and was cut, at the boundary of a UTF-8 character. */
static void cut(char *text)
{
	size_t n = CAPACITY - sizeof "...";
	int back;

	for (back = 0; back < 3 && ((unsigned char)text[n] & 0xc0) == 0x80; back++)
		n--;
	memcpy(text + n, "...", sizeof "...");
}

/* Prints into `text` and returns the length, at most CAPACITY - 1. */
__attribute__((format(printf, 2, 0)))
static size_t print(char *text, const char *format, va_list list)
{
	int n = vsnprintf(text, CAPACITY, format, list);

	if (n < 0)                       /* vsnprintf() failed, since the locale lacks a wide character: print the format alone */
		n = snprintf(text, CAPACITY, "%s", format);
	if (n < CAPACITY)
		return (size_t)n;
	cut(text);
	return strlen(text);
}

/* Prints to a second buffer, since the arguments may include the message itself. */
int cg_fail(int code, const char *format, ...)
{
	char text[CAPACITY];
	va_list list;
	size_t n;

	va_start(list, format);
	n = print(text, format, list);
	va_end(list);
	memcpy(message, text, n + 1);
	return code;
}

int cg_fail_in(int code, const char *format, ...)
{
	char text[CAPACITY];
	va_list list;
	size_t n;

	va_start(list, format);
	n = print(text, format, list);
	va_end(list);
	if (snprintf(text + n, CAPACITY - n, ": %s", message) >= (int)(CAPACITY - n))
		cut(text);
	memcpy(message, text, strlen(text) + 1);
	return code;
}

const char *cg_message(void)
{
	return message;
}

#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *cg_version(void)
{
	return VERSION(CG_VERSION_MAJOR, CG_VERSION_MINOR, CG_VERSION_PATCH);
}
