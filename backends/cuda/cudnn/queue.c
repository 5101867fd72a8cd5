/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the state of a network on one queue: the shapes of the latest calls, and the generator of cuDNN's dropout; and the queue's cuDNN
 * handle.  The state is made at the network's first call on the queue.  The state outlives the network, until another network makes its
 * first call on that queue or the queue closes, since the queue's work may still use the state.
 */
#include <pthread.h>
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

static struct cg_dnn_state *find_state(const struct cg_net *net, const struct cg_queue *queue)
{
	struct cg_dnn_state *p = net->states_of_queues;

	while (p && p->queue != queue)
		p = p->next;
	return p;
}

/* Frees a state.  Enqueued work may still use the state, so the function waits for that work. */
static void free_state(struct cg_dev *device, struct cg_dnn_state *p)
{
	cg_cu_finish(p->queue);
	for (int k = 0; k < CG_DNN_SHAPES; k++)
		cg_dnn_release_shape(device, p->queue, p->shapes[k]);
	for (int k = 0; k < CG_DNN_ALGORITHMS; k++)
		if (p->algorithms[k])
			cg_cudnn.DestroyRNNDescriptor(p->algorithms[k]);
	if (p->dropout)
		cg_cudnn.DestroyDropoutDescriptor(p->dropout);
	if (p->generator)
		cg_cu_free(device, p->queue, p->generator);
	cg_memory(p, 0);
}

static int make_handle(struct cg_queue *queue)
{
	int code;

	if (queue->dnn)
		return CG_OK;
	CUDNN_TRY(Create, &queue->dnn);
	code = cg_cudnn_error(cg_cudnn.SetStream(queue->dnn, queue->stream), "cudnnSetStream");
	if (code) {
		cg_cudnn.Destroy(queue->dnn);
		queue->dnn = NULL;
	}
	return code;
}

/* Makes a state.  If cuDNN draws the dropout masks, each queue has a generator of its own; otherwise two queues would draw from one
 * generator at the same time. */
static int make_state(const struct cg_net *net, struct cg_dnn_state *p)
{
	CG_TRY(make_handle(p->queue));
	if (!net->vendor_dropout)
		return CG_OK;
	CG_TRY(cg_dnn_make_dropout(net, p->queue->dnn, p->queue, &p->generator, &p->dropout));
	for (int k = 0; k < net->segments[0].n_algorithms; k++)
		CG_TRY(cg_dnn_describe(net, &net->segments[0], net->segments[0].algorithms[k].algorithm, p->dropout, &p->algorithms[k]));
	return CG_OK;
}

/* Frees the structs cg_dnn_state of closed networks, which the queue's field `left` lists. */
static void free_left(struct cg_queue *queue)
{
	struct cg_dnn_state *p, *next;

	pthread_mutex_lock(queue->device->lock);
	p = queue->left;
	queue->left = NULL;
	pthread_mutex_unlock(queue->device->lock);
	for (; p; p = next) {
		next = p->next;
		free_state(queue->device, p);
	}
}

int cg_dnn_find_state(struct cg_net *net, struct cg_queue *queue, struct cg_dnn_state **result)
{
	struct cg_dnn_state *p;
	int code;

	pthread_mutex_lock(net->device->lock);
	p = find_state(net, queue);
	pthread_mutex_unlock(net->device->lock);
	*result = p;
	if (p)
		return CG_OK;
	CG_TRY(cg_cu_check_uncaptured(queue, "a network's first call on a stream"));
	CG_TRY(cg_cu_check_all_uncaptured(queue->device, "a network's first call on a stream"));
	free_left(queue);
	p = cg_memory(NULL, sizeof *p);
	if (!p)
		return CG_NO_MEMORY;
	memset(p, 0, sizeof *p);
	p->queue = queue;
	code = make_state(net, p);
	if (code) {
		free_state(net->device, p);
		return code;
	}
	pthread_mutex_lock(net->device->lock);
	p->next = net->states_of_queues;
	net->states_of_queues = p;
	pthread_mutex_unlock(net->device->lock);
	*result = p;
	return CG_OK;
}

void cg_dnn_leave_state(struct cg_dnn_state **at)
{
	struct cg_dnn_state *p = *at;

	*at = p->next;
	p->next = p->queue->left;
	p->queue->left = p;
}

void cg_cu_release_dnn(struct cg_queue *queue)
{
	if (!queue->dnn)
		return;
	pthread_mutex_lock(queue->device->lock);
	for (struct cg_net *net = queue->device->nets; net; net = net->next)
		for (struct cg_dnn_state **at = &net->states_of_queues; *at; at = &(*at)->next)
			if ((*at)->queue == queue) {
				cg_dnn_leave_state(at);
				break;
			}
	pthread_mutex_unlock(queue->device->lock);
	free_left(queue);
	cg_cudnn.Destroy(queue->dnn);
	queue->dnn = NULL;
}
