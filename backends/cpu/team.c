/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a context: the calling thread, and helpers, which are threads of the team.  A call claims the helpers that are idle when
 * the call begins, but not more than it has parts for, and shares its parts with them.  The call releases helpers that have not begun when
 * no part is left, so a call waits neither for a late helper nor for a helper of another call.  Idle helpers spin for 200 microseconds,
 * longer than a framework in Python takes between two calls, since waking a thread takes fifty microseconds on a virtual machine.  After
 * that time helpers sleep, since a spinning thread takes a processor from others.  In phases no thread waits for a thread that is late or
 * is interrupted between shares: another thread takes that thread's share.
 *
 * A caller's thread pool may run parts one after the other, so each phase is a separate call of the pool's function.
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

/* IDLE_NS: how long a helper without work spins; LEAVE_NS: how long a call spins for helpers that still run a part.
 * LINE: bytes of a cache line; so many bytes separate fields that some threads write from fields that others read */
enum { IDLE_NS = 200000, LEAVE_NS = 50000, LINE = 64 };

/* The work of one call of cg_team_run(). */
struct round {
	int64_t parts;
	void (*part)(void *context, int64_t k, int thread);
	void *context;
	int processor;                           /* the processor on which the calling thread runs */
	int claimed;                             /* the number of helpers that the call has claimed */
	char before[LINE];
	atomic_llong next;                       /* the first part that no thread has taken */
	char after[LINE];
	/* entered: the number of helpers that have entered the round; inside: of those, the helpers that have not left */
	atomic_int entered, inside;
};

struct helper {
	/* the round that claimed the helper; NULL: the helper is idle.  Fields `round`, `entered` and `asleep` change under the team's lock */
	_Atomic(struct round *) round;
	int entered, asleep;
	struct cg_team *team;
	pthread_cond_t woken;
	pthread_t thread;
	char after[LINE];
};

struct cg_team {
	struct cg_pool pool;                     /* the caller's thread pool; pool.run is NULL if the team has helpers of its own */
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t left;                     /* signals that no helper is inside a round any more */
	atomic_int closing;
	struct helper *helpers, **idle;          /* threads - 1 helpers; the first n_idle of `idle` are idle, the latest one last */
	int n_idle;
};

/* ---- waiting ---- */

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

/* Pauses a spinning thread before it looks again for work.  Returns 1 if the thread may look again, 0 if its time is over. */
static int pause_before(int64_t end)
{
	for (int k = 0; k < 8; k++)
		relax();
	return now() < end;
}

/* ---- helpers ---- */

static void run_parts(struct round *round, int thread)
{
	int64_t k;

	while ((k = atomic_fetch_add_explicit(&round->next, 1, memory_order_relaxed)) < round->parts)
		round->part(round->context, k, thread);
}

static void make_idle(struct cg_team *team, struct helper *helper)
{
	atomic_store(&helper->round, NULL);
	helper->entered = 0;
	team->idle[team->n_idle++] = helper;
}

/* Makes a helper wait for the next round and enter it; *number receives the helper's number in that round.  Returns NULL when the team
 * is closed. */
static struct round *enter(struct helper *helper, int *number)
{
	struct cg_team *team = helper->team;
	struct round *round;

	for (int64_t end = now() + IDLE_NS; !atomic_load(&helper->round) && !atomic_load(&team->closing) && pause_before(end); )
		;
	pthread_mutex_lock(&team->lock);
	helper->asleep = 1;
	while (!atomic_load(&helper->round) && !atomic_load(&team->closing))
		pthread_cond_wait(&helper->woken, &team->lock);
	helper->asleep = 0;
	round = atomic_load(&helper->round);
	if (round) {
		helper->entered = 1;
		atomic_fetch_add(&round->inside, 1);
		*number = atomic_fetch_add(&round->entered, 1) + 1;
	}
	pthread_mutex_unlock(&team->lock);
	return round;
}

/* Makes a helper leave a round.  The struct round lies on the stack of the thread that called cg_team_run(), and may vanish once no helper
 * is inside the round. */
static void leave(struct helper *helper, struct round *round)
{
	struct cg_team *team = helper->team;

	pthread_mutex_lock(&team->lock);
	make_idle(team, helper);
	if (atomic_fetch_sub(&round->inside, 1) == 1)
		pthread_cond_broadcast(&team->left);
	pthread_mutex_unlock(&team->lock);
}

static void *work(void *given)
{
	struct helper *helper = given;
	struct cg_avoided avoided = { .any = 0 };
	struct round *round;
	int number;

	while ((round = enter(helper, &number))) {
		cg_avoid_processor(&avoided, round->processor);
		run_parts(round, number);
		leave(helper, round);
	}
	return NULL;
}

/* ---- rounds ---- */

static void claim(struct cg_team *team, struct round *round)
{
	pthread_mutex_lock(&team->lock);
	for (; round->claimed < round->parts - 1 && team->n_idle; round->claimed++) {
		struct helper *helper = team->idle[--team->n_idle];

		atomic_store(&helper->round, round);
		if (helper->asleep)
			pthread_cond_signal(&helper->woken);
	}
	pthread_mutex_unlock(&team->lock);
}

/* Makes claimed helpers that have not entered the round idle again, and waits until those that have entered it have left it. */
static void finish(struct cg_team *team, struct round *round)
{
	if (atomic_load(&round->entered) < round->claimed) {
		pthread_mutex_lock(&team->lock);
		for (int k = 0; k < team->threads - 1; k++)
			if (atomic_load(&team->helpers[k].round) == round && !team->helpers[k].entered)
				make_idle(team, &team->helpers[k]);
		pthread_mutex_unlock(&team->lock);
	}
	for (int64_t end = now() + LEAVE_NS; atomic_load(&round->inside) && pause_before(end); )
		;
	if (!atomic_load(&round->inside))
		return;
	pthread_mutex_lock(&team->lock);
	while (atomic_load(&round->inside))
		pthread_cond_wait(&team->left, &team->lock);
	pthread_mutex_unlock(&team->lock);
}

static void run_pooled(void *round, int thread)
{
	run_parts(round, thread);
}

void cg_team_run(struct cg_team *team, int64_t parts, void (*part)(void *context, int64_t k, int thread), void *context)
{
	struct round round;

	if (!team || parts < 2) {
		for (int64_t k = 0; k < parts; k++)
			part(context, k, 0);
		return;
	}
	round.parts = parts, round.part = part, round.context = context;
	round.claimed = 0;
	atomic_init(&round.next, 0);
	atomic_init(&round.entered, 0);
	atomic_init(&round.inside, 0);
	if (team->pool.run) {
		team->pool.run(team->pool.user, parts < team->threads ? (int)parts : team->threads, run_pooled, &round);
		return;
	}
	round.processor = cg_get_processor();
	claim(team, &round);
	run_parts(&round, 0);
	finish(team, &round);
}

/* ---- phases ---- */

struct phases_run {
	int shares;
	/* phases: the number of phases; phase: the current phase, if the phases run in a caller's thread pool */
	int64_t phases, phase;
	/* taken: for each share, the number of phases in which a thread has taken it; done: the number of shares that are done, over all
	 * phases */
	struct cg_team_count *taken, *done;
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

/* Runs one thread's work in every phase from the current one on: first the thread's own share, then shares that no thread has taken. */
static void run_phases(void *context, int64_t k, int thread)
{
	const struct phases_run *run = context;
	int64_t phase = atomic_load_explicit(&run->done->n, memory_order_acquire) / run->shares;

	for (; phase < run->phases; phase++) {
		for (int i = 0; i < run->shares; i++) {
			int share = (int)((k + i) % run->shares);
			int64_t expected = phase;

			if (atomic_load_explicit(&run->taken[share].n, memory_order_relaxed) != phase ||
			    !atomic_compare_exchange_strong(&run->taken[share].n, &expected, phase + 1))
				continue;
			run->part(run->context, phase, share, thread);
			atomic_fetch_add_explicit(&run->done->n, 1, memory_order_acq_rel);
		}
		wait_until(run->done, (phase + 1) * run->shares);
	}
}

static void run_pooled_phase(void *context, int64_t k, int thread)
{
	const struct phases_run *run = context;

	run->part(run->context, run->phase, (int)k, thread);
}

void cg_team_run_phases(struct cg_team *team, int shares, int64_t phases, struct cg_team_count *counts,
                        void (*part)(void *context, int64_t phase, int share, int thread), void *context)
{
	struct phases_run run = { shares, phases, 0, counts, counts + shares, part, context };

	if (team && team->pool.run) {
		for (; run.phase < phases; run.phase++)
			cg_team_run(team, shares, run_pooled_phase, &run);
		return;
	}
	for (int k = 0; k <= shares; k++)
		atomic_init(&counts[k].n, 0);
	cg_team_run(team, shares, run_phases, &run);
}

/* ---- opening and closing ---- */

static int make_team(int threads, struct cg_team **result)
{
	const size_t helpers = (size_t)threads - 1;
	struct cg_team *team = cg_memory(NULL, sizeof *team + helpers * (sizeof *team->helpers + sizeof *team->idle));

	if (!team)
		return CG_NO_MEMORY;
	memset(team, 0, sizeof *team + helpers * (sizeof *team->helpers + sizeof *team->idle));
	team->threads = threads;
	team->helpers = (struct helper *)(team + 1);
	team->idle = (struct helper **)(team->helpers + helpers);
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->left, NULL);
	*result = team;
	return CG_OK;
}

/* Ends a team of threads of which only the first `started` helpers have started. */
static void end(struct cg_team *team, int started)
{
	pthread_mutex_lock(&team->lock);
	atomic_store(&team->closing, 1);
	for (int k = 0; k < started; k++)
		pthread_cond_signal(&team->helpers[k].woken);
	pthread_mutex_unlock(&team->lock);
	for (int k = 0; k < started; k++) {
		pthread_join(team->helpers[k].thread, NULL);
		pthread_cond_destroy(&team->helpers[k].woken);
	}
	pthread_mutex_destroy(&team->lock);
	pthread_cond_destroy(&team->left);
	cg_memory(team, 0);
}

static int start_helper(struct cg_team *team, struct helper *helper)
{
	int code;

	helper->team = team;
	pthread_cond_init(&helper->woken, NULL);
	code = pthread_create(&helper->thread, NULL, work, helper);
	if (code)
		pthread_cond_destroy(&helper->woken);
	return code;
}

int cg_team_open(int threads, struct cg_team **result)
{
	struct cg_team *team;
	sigset_t all, before;
	int started = 0, code = 0;

	*result = NULL;
	if (threads == 1)
		return CG_OK;
	CG_TRY(make_team(threads, &team));
	/* Helpers block all signals, since signals are for the threads of the host program. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started < threads - 1 && !(code = start_helper(team, &team->helpers[started])))
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code) {
		end(team, started);
		return cg_fail(CG_NO_MEMORY, "cpu: pthread_create: thread %d of %d: %s; to use fewer threads, set CELLGRAD_CPU_THREADS or open "
		               "cpu:threads=N", started + 2, threads, strerror(code));
	}
	pthread_mutex_lock(&team->lock);
	for (int k = threads - 2; k >= 0; k--)
		make_idle(team, &team->helpers[k]);
	pthread_mutex_unlock(&team->lock);
	*result = team;
	return CG_OK;
}

int cg_team_pool(const struct cg_pool *pool, struct cg_team **result)
{
	*result = NULL;
	CG_TRY(make_team(pool->threads, result));
	(*result)->pool = *pool;
	return CG_OK;
}

void cg_team_close(struct cg_team *team)
{
	if (team)
		end(team, team->pool.run ? 0 : team->threads - 1);
}

int cg_team_threads(const struct cg_team *team)
{
	return team ? team->threads : 1;
}
