/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a query in a child process, which answers through a pipe: JSON, then a 0 byte.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command/output.h"
#include "command/child_process.h"
#include "runtime/device/inspect.h"

enum { FIRST = 1 << 16, MOST = 1 << 24 };
/* GRACE: milliseconds in which a child must end after it has answered, closed its end of the pipe or been killed. LOOK: milliseconds
 * between two checks whether the child has ended. */
enum { GRACE = 2000, LOOK = 1 };

/* ---- the child ---- */

static void write_all(int fd, const char *at, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		at += n;
		bytes -= (size_t)n;
	}
}

/* Computes and writes the child's answer, and ends the child. If the child runs out of memory, it writes an empty
 * answer, which the parent reports as CG_NO_MEMORY. Exit handlers do not run: that of a driver might hang, and buffered output of the
 * parent would be printed twice. */
static _Noreturn void answer(int fd, int seconds, json_t *(*ask)(const void *), const void *about)
{
	const struct rlimit no_core = { 0, 0 };
	json_t *json;
	char *text;

	setrlimit(RLIMIT_CORE, &no_core);
	alarm((unsigned)seconds + 1);            /* the alarm ends the child even if the parent has ended */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	json = ask(about);
	text = json && !print_json_lost() ? json_dumps(json, JSON_COMPACT) : NULL;
	write_all(fd, text ? text : "", text ? strlen(text) + 1 : 1);
	_exit(EXIT_SUCCESS);
}

/* ---- the parent ---- */

struct text { char *at; size_t bytes, capacity; };

static int grow(struct text *t)
{
	size_t capacity = t->capacity ? 2 * t->capacity : FIRST;
	char *at = capacity <= MOST ? cg_memory(t->at, capacity) : NULL;

	if (!at)
		return CG_NO_MEMORY;
	t->at = at;
	t->capacity = capacity;
	return CG_OK;
}

/* Reads the child's answer up to the 0 byte. 1: the 0 byte came. 0: the child closed its end of the pipe or took too long, or the text is
 * too long for MOST or for the memory. */
static int read_answer(int fd, double until, struct text *t)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	for (;;) {
		double left = until - cg_milliseconds();
		ssize_t n;

		if (t->bytes == t->capacity && grow(t))
			return 0;
		if (left <= 0)
			return 0;
		n = poll(&wait, 1, (int)left + 1);
		if (n > 0)
			n = read(fd, t->at + t->bytes, t->capacity - t->bytes);
		else if (!n || errno == EINTR)
			continue;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		t->bytes += (size_t)n;
		if (!t->at[t->bytes - 1])
			return 1;
	}
}

/* Waits at most `milliseconds` for the child to end. */
static int reap(pid_t child, int *status, double milliseconds)
{
	const struct timespec look = { 0, LOOK * 1000000L };
	double until = cg_milliseconds() + milliseconds;

	for (;;) {
		pid_t gone = waitpid(child, status, WNOHANG);

		if (gone == child || (gone < 0 && errno != EINTR))
			return gone == child;
		if (cg_milliseconds() > until)
			return 0;
		nanosleep(&look, NULL);
	}
}

/* Ends the child, unless it ends by itself in time. If the child gave no answer, `why` says how it ended. */
static void end(pid_t child, int answered, int late, int seconds, char why[CHILD_WHY])
{
	int status = 0, gone = late ? 0 : reap(child, &status, GRACE);

	if (!gone) {
		kill(child, SIGKILL);
		reap(child, &status, GRACE);
	}
	if (answered)
		return;
	if (late || !gone)
		snprintf(why, CHILD_WHY, "the driver gave no answer in %d s, and the process that asked the driver was ended", seconds);
	else if (WIFSIGNALED(status))
		snprintf(why, CHILD_WHY, "the driver ended the process that asked it: signal %d (%s)", WTERMSIG(status),
		         strsignal(WTERMSIG(status)));
	else
		snprintf(why, CHILD_WHY, "the driver ended the process that asked it: exit status %d", WEXITSTATUS(status));
}

/* Starts a child process that answers, and returns the end of the pipe from which the parent reads; -1: `why` says what failed. */
static int start(json_t *(*ask)(const void *), const void *about, int seconds, pid_t *child, char why[CHILD_WHY])
{
	int ends[2];

	if (pipe(ends)) {
		snprintf(why, CHILD_WHY, "the driver could not be asked: pipe: %s", strerror(errno));
		return -1;
	}
	/* The pipe closes in programs that a driver starts, so that no such program keeps it open. */
	fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	fcntl(ends[1], F_SETFD, FD_CLOEXEC);
	fflush(stdout);
	signal(SIGCHLD, SIG_DFL);
	*child = fork();
	if (!*child) {
		close(ends[0]);
		answer(ends[1], seconds, ask, about);
	}
	close(ends[1]);
	if (*child > 0)
		return ends[0];
	snprintf(why, CHILD_WHY, "the driver could not be asked: fork: %s", strerror(errno));
	close(ends[0]);
	return -1;
}

json_t *ask_in_child(json_t *(*ask)(const void *about), const void *about, int seconds, char why[CHILD_WHY])
{
	double until = cg_milliseconds() + 1e3 * seconds;
	struct text text = { NULL, 0, 0 };
	unsigned lost = print_json_lost();
	json_t *json = NULL;
	pid_t child;
	int fd, answered;

	why[0] = '\0';
	fd = start(ask, about, seconds, &child, why);
	if (fd < 0)
		return NULL;
	answered = read_answer(fd, until, &text);
	end(child, answered, cg_milliseconds() > until, seconds, why);
	close(fd);
	if (answered && text.bytes > 1)
		json = json_loads(text.at, JSON_DECODE_ANY, NULL);
	if (answered && !json && text.bytes > 1 && print_json_lost() == lost)
		snprintf(why, CHILD_WHY, "the answer of the process that asked the driver is not JSON");
	else if (answered && !json)
		cg_fail(CG_NO_MEMORY, "no memory for the answer of the child process");
	cg_memory(text.at, 0);
	return json;
}
