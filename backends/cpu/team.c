/*
 * The threads of a stream.  A team waits in two ways: it spins for fifty microseconds, since rounds come in quick succession and to wake
 * a thread takes as long on a virtual machine, and then sleeps, since a spinning thread takes a processor from others.  A round of work
 * has a place for as many threads as it has parts; a thread that wakes up too late finds no place, and no other thread waits for it.  In a
 * round of phases a thread that comes late, or is interrupted between shares, is not waited for either: another takes its share.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/processors.h"
#include "backends/cpu/team.h"
#include "runtime/core/core.h"

enum { SPIN_NS = 50000, LINE = 64 };         /* LINE: bytes of a cache's, so that parts are taken in one of their own */

struct cg_team {
	pthread_mutex_t lock;
	pthread_cond_t opened, left;
	int sleepers;                            /* members that wait for `opened`; under the lock, as the next three */
	int64_t openings;                        /* members that may still come into the round */
	int entered;                             /* those that have */
	int closing;
	atomic_int inside;                       /* those that have not left */
	atomic_uint round;                       /* counts them; what spinning threads look at */

	int64_t parts;
	void (*part)(void *context, int64_t k, int thread);
	void *context;
	int processor;                           /* the caller's */
	char before[LINE];
	atomic_llong next;                       /* the first part that no thread has taken */
	char after[LINE];

	int threads;
	pthread_t members[];                     /* from 1 on: 0 is the caller */
};

static void relax(void)
{
#if defined(__i386__) || defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Spins while is(team, value), but not for long. */
static void spin(struct cg_team *team, int (*is)(struct cg_team *, unsigned), unsigned value)
{
	int64_t end = now() + SPIN_NS;

	while (is(team, value) && now() < end)
		for (int k = 0; k < 8; k++)
			relax();
}

static int same_round(struct cg_team *team, unsigned round)
{
	return atomic_load(&team->round) == round;
}

static int busy(struct cg_team *team, unsigned unused)
{
	(void)unused;
	return atomic_load(&team->inside) != 0;
}

static void run_parts(struct cg_team *team, int thread)
{
	int64_t k;

	while ((k = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed)) < team->parts)
		team->part(team->context, k, thread);
}

static void *work(void *given)
{
	struct cg_team *team = given;
	struct cg_avoided avoided = { .any = 0 };
	unsigned seen = 0;

	for (;;) {
		int number;

		spin(team, same_round, seen);
		pthread_mutex_lock(&team->lock);
		team->sleepers++;
		while (!team->closing && (!team->openings || same_round(team, seen)))
			pthread_cond_wait(&team->opened, &team->lock);
		team->sleepers--;
		if (team->closing) {
			pthread_mutex_unlock(&team->lock);
			return NULL;
		}
		team->openings--;
		number = ++team->entered;
		seen = atomic_load(&team->round);
		atomic_fetch_add(&team->inside, 1);
		pthread_mutex_unlock(&team->lock);
		cg_avoid_processor(&avoided, team->processor);
		run_parts(team, number);
		if (atomic_fetch_sub(&team->inside, 1) == 1) {
			pthread_mutex_lock(&team->lock);
			pthread_cond_signal(&team->left);
			pthread_mutex_unlock(&team->lock);
		}
	}
}

static void close_round(struct cg_team *team)
{
	pthread_mutex_lock(&team->lock);
	team->openings = 0;
	pthread_mutex_unlock(&team->lock);
	spin(team, busy, 0);
	if (busy(team, 0)) {
		pthread_mutex_lock(&team->lock);
		while (busy(team, 0))
			pthread_cond_wait(&team->left, &team->lock);
		pthread_mutex_unlock(&team->lock);
	}
}

void cg_team_run(struct cg_team *team, int64_t parts, void (*part)(void *context, int64_t k, int thread), void *context)
{
	if (!team || parts < 2) {
		for (int64_t k = 0; k < parts; k++)
			part(context, k, 0);
		return;
	}
	pthread_mutex_lock(&team->lock);
	team->parts = parts;
	team->part = part;
	team->context = context;
	team->processor = cg_get_processor();
	atomic_store(&team->next, 0);
	team->openings = parts - 1;
	team->entered = 0;
	atomic_fetch_add(&team->round, 1);
	for (int64_t k = 0; k < parts - 1 && k < team->sleepers; k++)
		pthread_cond_signal(&team->opened);
	pthread_mutex_unlock(&team->lock);
	run_parts(team, 0);
	close_round(team);
}

/* ---- phases ---- */

struct walk {
	int shares;
	int64_t phases;
	struct cg_team_count *taken, *done;      /* phases of each share that were taken; shares that are done, of all phases */
	void (*part)(void *context, int64_t phase, int share, int thread);
	void *context;
};

static void wait_until(struct cg_team_count *count, int64_t least)
{
	enum { SPINS = 4000 };

	for (int k = 0; atomic_load_explicit(&count->n, memory_order_acquire) < least; k++) {
		if (k < SPINS)
			relax();
		else
			sched_yield();
	}
}

/* Takes part in every phase from the current one on: first its own share, then those that no thread has taken. */
static void walk(void *context, int64_t k, int thread)
{
	const struct walk *w = context;
	int64_t phase = atomic_load_explicit(&w->done->n, memory_order_acquire) / w->shares;

	for (; phase < w->phases; phase++) {
		for (int i = 0; i < w->shares; i++) {
			int share = (int)((k + i) % w->shares);
			int64_t expected = phase;

			if (atomic_load_explicit(&w->taken[share].n, memory_order_relaxed) != phase ||
			    !atomic_compare_exchange_strong(&w->taken[share].n, &expected, phase + 1))
				continue;
			w->part(w->context, phase, share, thread);
			atomic_fetch_add_explicit(&w->done->n, 1, memory_order_acq_rel);
		}
		wait_until(w->done, (phase + 1) * w->shares);
	}
}

void cg_team_walk(struct cg_team *team, int shares, int64_t phases, struct cg_team_count *counts,
                  void (*part)(void *context, int64_t phase, int share, int thread), void *context)
{
	struct walk w = { shares, phases, counts, counts + shares, part, context };

	for (int k = 0; k <= shares; k++)
		atomic_init(&counts[k].n, 0);
	cg_team_run(team, shares, walk, &w);
}

/* The first `started` members are there. */
static void end(struct cg_team *team, int started)
{
	pthread_mutex_lock(&team->lock);
	team->closing = 1;
	atomic_fetch_add(&team->round, 1);
	pthread_cond_broadcast(&team->opened);
	pthread_mutex_unlock(&team->lock);
	for (int k = 1; k <= started; k++)
		pthread_join(team->members[k], NULL);
	pthread_mutex_destroy(&team->lock);
	pthread_cond_destroy(&team->opened);
	pthread_cond_destroy(&team->left);
	cg_memory(team, 0);
}

int cg_team_open(int threads, struct cg_team **result)
{
	struct cg_team *team;
	sigset_t all, before;
	int started = 0, code = 0;

	*result = NULL;
	if (threads == 1)
		return CG_OK;
	team = cg_memory(NULL, sizeof *team + (size_t)threads * sizeof *team->members);
	if (!team)
		return CG_NO_MEMORY;
	memset(team, 0, sizeof *team);
	team->threads = threads;
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->opened, NULL);
	pthread_cond_init(&team->left, NULL);
	/* Signals are for the threads of the host program. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (int k = 1; k < threads && !code; k++) {
		code = pthread_create(&team->members[k], NULL, work, team);
		started += !code;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code) {
		end(team, started);
		return cg_fail(CG_NO_MEMORY, "cpu: pthread_create: thread %d of %d: %s; CELLGRAD_CPU_THREADS asks for fewer", started + 1,
		               threads, strerror(code));
	}
	*result = team;
	return CG_OK;
}

void cg_team_close(struct cg_team *team)
{
	if (team)
		end(team, team->threads - 1);
}

int cg_team_threads(const struct cg_team *team)
{
	return team ? team->threads : 1;
}
