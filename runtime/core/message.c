/*
 * The words of a failure: one buffer per thread, bounded and never allocated, so that they are there when memory is
 * not.  What they say is left to those who fail.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/core/core.h"

enum { ROOM = CG_MESSAGE_MAX };          /* a compiler's log is cut here: its first errors matter */

static _Thread_local char message[ROOM];

/* Ends a text that did not fit with dots, and not inside a character of UTF-8. */
static void cut(char *words)
{
	size_t n = ROOM - sizeof "...";
	int back;

	for (back = 0; back < 3 && ((unsigned char)words[n] & 0xc0) == 0x80; back++)
		n--;
	memcpy(words + n, "...", sizeof "...");
}

/* Prints into words and returns the length, at most ROOM - 1. */
__attribute__((format(printf, 2, 0)))
static size_t print(char *words, const char *format, va_list list)
{
	int n = vsnprintf(words, ROOM, format, list);

	if (n < 0)                       /* a wide character that the locale lacks: the bare format, then */
		n = snprintf(words, ROOM, "%s", format);
	if (n < ROOM)
		return (size_t)n;
	cut(words);
	return strlen(words);
}

/* The words are made aside, since the arguments may be the message itself. */
int cg_fail(int code, const char *format, ...)
{
	char words[ROOM];
	va_list list;
	size_t n;

	va_start(list, format);
	n = print(words, format, list);
	va_end(list);
	memcpy(message, words, n + 1);
	return code;
}

int cg_fail_in(int code, const char *format, ...)
{
	char words[ROOM];
	va_list list;
	size_t n;

	va_start(list, format);
	n = print(words, format, list);
	va_end(list);
	if (snprintf(words + n, ROOM - n, ": %s", message) >= (int)(ROOM - n))
		cut(words);
	memcpy(message, words, strlen(words) + 1);
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
