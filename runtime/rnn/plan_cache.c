/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference counts of plans, and the plan cache of a context: callers of cg_rnn_get() with equal configs share a plan, and the plans that
 * cg_rnn_get() returned last stay open while nobody holds them.
 */
#include <pthread.h>
#include <string.h>

#include "runtime/rnn/rnn.h"

/* The most plans without references that a context keeps. */
enum { IDLE_MAX = 32 };

/* Everything that distinguishes plans, except the name and the text of the cell.  Keys are compared byte by byte. */
struct key {
	int64_t numbers[16];
	double values[CG_PARAMS_MAX], dropout;
	char route[CG_ROUTE_MAX];
};

struct entry {
	struct entry *next;
	struct key key;
	struct cg_rnn *rnn;
};

/* The cache.  The entries of the cache are in the order in which cg_rnn_get() last returned their plans, the latest first. */
struct cache {
	struct cg_context_attachment attachment;
	pthread_mutex_t lock;
	struct entry *entries;
};

static void open_cache(struct cg_context_attachment *a)
{
	pthread_mutex_init(&((struct cache *)a)->lock, NULL);
}

static void free_entry(struct entry *e)
{
	cg_rnn_free(e->rnn);
	cg_memory(e, 0);
}

static void close_cache(struct cg_context_attachment *a)
{
	struct cache *cache = (struct cache *)a;

	while (cache->entries) {
		struct entry *next = cache->entries->next;

		free_entry(cache->entries);
		cache->entries = next;
	}
	pthread_mutex_destroy(&cache->lock);
}

static struct cache *get_cache(struct cg_context *context)
{
	static const struct cg_context_attachment_kind kind = { open_cache, close_cache };

	return (struct cache *)cg_context_get_attachment(context, &kind, sizeof(struct cache));
}

/* Makes the key of a complete config; described: the plan that cg_rnn_describe filled from the config. */
static void make_key(const struct cg_rnn_config *config, const struct cg_rnn *described, struct key *key)
{
	const struct cg_network *net = &described->net;
	const int64_t numbers[] = { described->options, net->dtype, net->layers, net->directions, net->skip, net->time_major,
	                            net->states_major, net->reverse, net->training, net->I, net->U, net->P, (int64_t)net->seed, net->allow_tf32,
	                            net->allow_vendor_dropout, net->strict_rounding };

	_Static_assert(sizeof numbers <= sizeof key->numbers, "the key of a plan must have an element for each number");
	memset(key, 0, sizeof *key);
	memcpy(key->numbers, numbers, sizeof numbers);
	memcpy(key->values, described->values, (size_t)net->cell->n_params * sizeof *key->values);
	key->dropout = net->dropout;
	if (config->route)
		strncpy(key->route, config->route, sizeof key->route - 1);
}

static int is_same_cell(const struct cg_cell *a, const struct cg_cell *b)
{
	return a == b || (!strcmp(a->name, b->name) && !strcmp(a->text, b->text));
}

/* Finds a plan, moves its entry to the front and takes a reference; called under the lock.  NULL: there is none. */
static struct cg_rnn *find(struct cache *cache, const struct key *key, const struct cg_cell *cell)
{
	for (struct entry **at = &cache->entries; *at; at = &(*at)->next) {
		struct entry *e = *at;

		if (memcmp(&e->key, key, sizeof *key) || !is_same_cell(e->rnn->net.cell, cell))
			continue;
		*at = e->next;
		e->next = cache->entries;
		cache->entries = e;
		if (!e->rnn->holders++)
			cg_context_retain(e->rnn->context);
		return e->rnn;
	}
	return NULL;
}

/* If more than IDLE_MAX plans have no reference, removes from the list the one of them that cg_rnn_get() returned longest ago; called under
 * the lock.  Returns NULL if at most IDLE_MAX plans have no reference. */
static struct entry *take_oldest(struct cache *cache)
{
	struct entry **oldest = NULL, *e;
	int idle = 0;

	for (struct entry **at = &cache->entries; *at; at = &(*at)->next)
		if (!(*at)->rnn->holders) {
			oldest = at;
			idle++;
		}
	if (idle <= IDLE_MAX)
		return NULL;
	e = *oldest;
	*oldest = e->next;
	return e;
}

/* Adds an open plan and returns NULL; if another thread has added an equal plan meanwhile, adds nothing and returns that plan. */
static struct cg_rnn *add(struct cache *cache, struct entry *e)
{
	struct cg_rnn *found;

	pthread_mutex_lock(&cache->lock);
	found = find(cache, &e->key, e->rnn->net.cell);
	if (!found) {
		e->rnn->is_cached = 1;
		e->next = cache->entries;
		cache->entries = e;
	}
	pthread_mutex_unlock(&cache->lock);
	return found;
}

static int open_cached(struct cache *cache, struct cg_context *context, const struct cg_rnn_config *config, const struct key *key,
                       struct cg_rnn **result)
{
	struct entry *e = cg_memory(NULL, sizeof *e);
	struct cg_rnn *found;
	int code;

	if (!e)
		return CG_NO_MEMORY;
	*e = (struct entry){ .key = *key };
	code = cg_rnn_open(context, config, &e->rnn);
	if (code) {
		cg_memory(e, 0);
		return code;
	}
	*result = e->rnn;
	found = add(cache, e);
	if (found) {
		cg_rnn_close(e->rnn);
		cg_memory(e, 0);
		*result = found;
	}
	return CG_OK;
}

int cg_rnn_get(struct cg_context *context, const struct cg_rnn_config *config, struct cg_rnn **result)
{
	struct cg_rnn_config whole;
	struct cg_rnn described;
	struct cache *cache;
	struct key key;

	if (!result)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_get: rnn: expected a pointer for the result, got NULL");
	*result = NULL;
	CG_TRY(cg_context_check(context, "cg_rnn_get"));
	config = cg_rnn_config_complete(config, &whole);
	CG_TRY(cg_rnn_describe(config, &described));
	make_key(config, &described, &key);
	cache = get_cache(context);
	if (!cache)
		return CG_NO_MEMORY;
	pthread_mutex_lock(&cache->lock);
	*result = find(cache, &key, described.net.cell);
	pthread_mutex_unlock(&cache->lock);
	return *result ? CG_OK : open_cached(cache, context, config, &key, result);
}

void cg_rnn_hold(struct cg_rnn *rnn)
{
	struct cache *cache;

	if (!rnn || rnn->context->fork != cg_fork_count())
		return;
	if (!rnn->is_cached) {
		__atomic_add_fetch(&rnn->holders, 1, __ATOMIC_RELAXED);
		return;
	}
	cache = get_cache(rnn->context);
	pthread_mutex_lock(&cache->lock);
	rnn->holders++;
	pthread_mutex_unlock(&cache->lock);
}

/* Drops a reference to a cached plan without removing the plan from the cache.  But if more than IDLE_MAX cached plans then have no
 * reference, the one of them that cg_rnn_get() returned longest ago is freed; that may be the plan whose reference was dropped. */
static void give_back(struct cg_rnn *rnn)
{
	struct cg_context *context = rnn->context;
	struct cache *cache = get_cache(context);
	struct entry *oldest = NULL;
	int is_held;

	pthread_mutex_lock(&cache->lock);
	is_held = --rnn->holders;
	if (!is_held)
		oldest = take_oldest(cache);
	pthread_mutex_unlock(&cache->lock);
	if (oldest)
		free_entry(oldest);
	if (!is_held)
		cg_close(context);
}

void cg_rnn_close(struct cg_rnn *rnn)
{
	struct cg_context *context = rnn ? rnn->context : NULL;

	if (!rnn || context->fork != cg_fork_count())
		return;
	if (rnn->is_cached) {
		give_back(rnn);
		return;
	}
	if (__atomic_sub_fetch(&rnn->holders, 1, __ATOMIC_ACQ_REL))
		return;
	cg_rnn_free(rnn);
	cg_close(context);
}
