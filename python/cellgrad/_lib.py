"""The declarations of cellgrad.h, as text, and what ctypes makes of them.

DECLARATIONS is the header without comments and preprocessor: a change there is copied here, and
tests/python/py_header.py fails until it is.
"""
from ._declare import declare

DECLARATIONS = """
#define CG_VERSION_MAJOR 0
#define CG_VERSION_MINOR 2
#define CG_VERSION_PATCH 0
enum cg_status {
    CG_OK           =  0,
    CG_BAD_ARGUMENT = -1,
    CG_NO_MEMORY    = -2,
    CG_NO_DEVICE    = -3,
    CG_UNSUPPORTED  = -4,
    CG_BUILD        = -5,
    CG_DRIVER       = -6,
    CG_FILE         = -7
};
enum cg_dtype { CG_F32, CG_F64, CG_F16, CG_BF16 };
enum cg_place { CG_HOST, CG_DEVICE };
enum cg_pass  { CG_FORWARD, CG_GRAD, CG_GRADGRAD, CG_SEQ_FORWARD, CG_SEQ_GRAD };
enum cg_gates { CG_ICFO, CG_IFCO };
const char *cg_message(void);
const char *cg_version(void);
struct cg_allocator {
    void *(*resize)(void *user, void *p, size_t bytes);
    void *user;
};
int  cg_set_allocator(const struct cg_allocator *allocator);
struct cg_context;
struct cg_stream;
int  cg_open(const char *where, struct cg_context **context);
int  cg_adopt(const char *backend, void *native, void *device, struct cg_context **context);
void cg_close(struct cg_context *context);
const char *cg_describe(const struct cg_context *context);
const char *cg_device(int i, const char **about);
struct cg_pool {
    size_t  size;
    int     threads;
    void  (*run)(void *user, int parts, void (*part)(void *arg, int k), void *arg);
    void   *user;
};
void cg_pool_init(struct cg_pool *pool, size_t size);
int  cg_pool_set(struct cg_context *context, const struct cg_pool *pool);
int  cg_supports(const struct cg_context *context, const char *op, int dtype);
int  cg_stream_open(struct cg_context *context, void *native, struct cg_stream **stream);
int  cg_stream_sync(struct cg_stream *stream);
void cg_stream_close(struct cg_stream *stream);
int  cg_stream_take(struct cg_context *context, struct cg_stream **stream);
int  cg_stream_give(struct cg_stream *stream);
struct cg_mem {
    void   *data;
    size_t  offset;
    size_t  bytes;
    int     place;
};
struct cg_mem cg_host(const void *pointer, size_t bytes);
int  cg_alloc(struct cg_context *context, size_t bytes, struct cg_mem *mem);
void cg_free(struct cg_context *context, struct cg_mem *mem);
int  cg_put(struct cg_stream *stream, struct cg_mem to, const void *from, size_t bytes);
int  cg_get(struct cg_stream *stream, void *to, struct cg_mem from, size_t bytes);
struct cg_lstm_block {
    size_t  size;
    int64_t T, B, I, U, seq_len_max;
    int     dtype, gates, use_peephole;
    int     accumulate;
    double  forget_bias, cell_clip;
    struct cg_mem work;
    struct cg_mem x, cs_prev, h_prev;
    struct cg_mem w, wci, wcf, wco, b;
    struct cg_mem i, cs, f, o, ci, co, h;
    struct cg_mem cs_grad, h_grad;
    struct cg_mem x_grad, cs_prev_grad, h_prev_grad, dgates;
    struct cg_mem w_grad, wci_grad, wcf_grad, wco_grad, b_grad;
};
void cg_lstm_block_init(struct cg_lstm_block *op, size_t size);
int  cg_lstm_block_work(const struct cg_lstm_block *op, enum cg_pass pass, size_t *bytes);
int  cg_lstm_block_forward(struct cg_stream *stream, const struct cg_lstm_block *op);
int  cg_lstm_block_grad(struct cg_stream *stream, const struct cg_lstm_block *op);
struct cg_gru_block {
    size_t  size;
    int64_t B, I, U;
    int     dtype, accumulate;
    struct cg_mem work;
    struct cg_mem x, h_prev;
    struct cg_mem w_ru, w_c, b_ru, b_c;
    struct cg_mem r, u, c, h;
    struct cg_mem d_h;
    struct cg_mem d_x, d_h_prev, d_c_bar, d_r_bar_u_bar;
    struct cg_mem d_w_ru, d_w_c, d_b_ru, d_b_c;
};
void cg_gru_block_init(struct cg_gru_block *op, size_t size);
int  cg_gru_block_work(const struct cg_gru_block *op, enum cg_pass pass, size_t *bytes);
int  cg_gru_block_forward(struct cg_stream *stream, const struct cg_gru_block *op);
int  cg_gru_block_grad(struct cg_stream *stream, const struct cg_gru_block *op);
struct cg_cell;
const struct cg_cell *cg_cell_find(const char *name);
const char *cg_cell_name(int i);
int  cg_cell_parse(const char *text, const char *name_in_errors, struct cg_cell **cell);
int  cg_cell_load(const char *path, struct cg_cell **cell);
void cg_cell_close(struct cg_cell *cell);
enum { CG_CELL_NAMES = 32 };
struct cg_cell_parts {
    size_t      size;
    const char *name;
    int         n_stages, has_state;
    int         n_gates, n_vectors, n_options, n_params;
    const char *gates[CG_CELL_NAMES];
    const char *vectors[CG_CELL_NAMES];
    int         vector_option[CG_CELL_NAMES];
    const char *options[CG_CELL_NAMES];
    const char *params[CG_CELL_NAMES];
    double      defaults[CG_CELL_NAMES];
};
void cg_cell_parts_init(struct cg_cell_parts *parts, size_t size);
int  cg_cell_info(const struct cg_cell *cell, struct cg_cell_parts *parts);
enum cg_shape { CG_POINT, CG_SUM, CG_SCAN };
struct cg_kernel { const struct cg_cell *cell; const char *options; int stage, pass, dtype, shape; };
int  cg_kernel_emit(const struct cg_kernel *kernel, const char *lang, char **text);
int  cg_kernel_manifest(const struct cg_kernel *kernel, const char *lang, char **json);
void cg_text_free(char *text);
struct cg_arg {
    const char   *name;
    struct cg_mem mem;
    int64_t       stride;
    double        value;
};
int  cg_kernel_run(struct cg_stream *stream, const struct cg_kernel *kernel, int64_t rows, int64_t units, const struct cg_arg *args, int n);
struct cg_rnn;
enum cg_input { CG_LINEAR, CG_SKIP, CG_AUTO };
struct cg_value { const char *name; double value; };
struct cg_rnn_config {
    size_t  size;
    const struct cg_cell *cell;
    const char *options;
    const struct cg_value *values;
    int     n_values;
    int     dtype, layers, bidirectional, input_mode, time_major;
    int64_t input, units, proj;
    double  dropout;
    uint64_t seed;
    int     training;
    int     allow_tf32, allow_vendor_dropout;
    const char *route;
    int     strict_rounding;
    int     reverse;
    int     states_major;
};
void cg_rnn_config_init(struct cg_rnn_config *config, size_t size);
int  cg_rnn_open(struct cg_context *context, const struct cg_rnn_config *config, struct cg_rnn **rnn);
void cg_rnn_close(struct cg_rnn *rnn);
int  cg_rnn_get(struct cg_context *context, const struct cg_rnn_config *config, struct cg_rnn **rnn);
void cg_rnn_hold(struct cg_rnn *rnn);
const char *cg_rnn_route(const struct cg_rnn *rnn);
const char *cg_rnn_route_at(const struct cg_rnn *rnn, int64_t T);
struct cg_rnn_sizes { size_t params, reserve, work; };
int  cg_rnn_sizes(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths, struct cg_rnn_sizes *sizes);
int  cg_rnn_reserve_bound(const struct cg_rnn *rnn, size_t *fixed, size_t *step);
struct cg_rnn_region { int64_t offset, rows, columns; };
int  cg_rnn_region(const struct cg_rnn *rnn, int pseudo_layer, int id, int bias, struct cg_rnn_region *region);
enum cg_rnn_part { CG_RNN_INPUT, CG_RNN_RECURRENT, CG_RNN_PROJECTION, CG_RNN_BIAS_W, CG_RNN_BIAS_R, CG_RNN_VECTOR };
int  cg_rnn_params(const struct cg_rnn_config *config, size_t *bytes);
int  cg_rnn_config_region(const struct cg_rnn_config *config, int pseudo_layer, enum cg_rnn_part part, const char *name,
                          struct cg_rnn_region *region);
int  cg_rnn_init_params(const struct cg_rnn *rnn, const char *words, uint64_t seed, struct cg_mem params);
struct cg_rnn_call {
    size_t  size;
    int64_t T, B;
    const int32_t *lengths;
    uint64_t counter;
    int64_t first_step;
    int     accumulate;
    int     spend_reserve;
    struct cg_mem work, reserve, params;
    struct cg_mem input, input_h, input_c;
    struct cg_mem output, output_h, output_c;
    struct cg_mem output_backprop, output_h_backprop, output_c_backprop;
    struct cg_mem input_backprop, input_h_backprop, input_c_backprop;
    struct cg_mem params_backprop;
    int     no_dropout;
};
void cg_rnn_call_init(struct cg_rnn_call *call, size_t size);
int  cg_rnn_forward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call);
int  cg_rnn_backward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call);
int  cg_rnn_reserve_counter(const void *reserve, size_t bytes, uint64_t *counter);
const char *cg_format_name(int i);
enum { CG_TENSOR_NAME = 128, CG_TENSOR_RANK = 4 };
struct cg_tensor {
    char    name[CG_TENSOR_NAME];
    int     rank;
    int64_t shape[CG_TENSOR_RANK];
    size_t  bytes;
};
struct cg_weights {
    size_t  size;
    const char *format;
    const struct cg_rnn_config *network;
    int     gradients;
    int     lossy;
    void   *params;
    size_t  bytes;
};
void cg_weights_init(struct cg_weights *weights, size_t size);
int  cg_weights_tensor(const struct cg_weights *weights, int k, struct cg_tensor *tensor);
int  cg_weights_load(const struct cg_weights *weights, int k, const void *tensor, size_t bytes);
int  cg_weights_save(const struct cg_weights *weights, int k, void *tensor, size_t bytes);
"""

C = declare(DECLARATIONS)
VERSION = f"{C.CG_VERSION_MAJOR}.{C.CG_VERSION_MINOR}.{C.CG_VERSION_PATCH}"
