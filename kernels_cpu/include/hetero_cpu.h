/* hetero CPU kernels: the C ABI. No torch, no Python: pointers, sizes, strides and dtype codes.
 *
 * - A dtype code is DLPack's type code and bit width, (code << 8) | bits.
 * - A matrix argument is a base pointer and the distance between rows, counted in elements; within a row
 *   elements are adjacent. Nothing needs to be aligned beyond its element size.
 * - Maths is float32 whatever the storage; each result is rounded once.
 * - Every function returns HETERO_OK or an error, whose text hetero_cpu_error() gives for the calling thread.
 * - `threads` is an upper bound; small work runs on the calling thread.
 * A pointer marked "or NULL" leaves that operand or result out.
 */
#ifndef HETERO_CPU_H
#define HETERO_CPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HETERO_API __attribute__((visibility("default")))

enum { HETERO_F32 = (2 << 8) | 32, HETERO_BF16 = (4 << 8) | 16 };
enum { HETERO_OK = 0, HETERO_BAD_ARGUMENT = 1, HETERO_OUT_OF_RANGE = 2, HETERO_NO_MEMORY = 3 };

/* Which build of the kernels runs: "generic", "avx2", "avx2_wide" (16 lanes on AVX2, to test the 16-lane code
 * where there is no AVX-512), "avx512". The best one is chosen at load. */
HETERO_API const char* hetero_cpu_isa(void);
HETERO_API int hetero_cpu_set_isa(const char* name);
/* The i-th build that this processor can run, the one chosen by default first; NULL past the end. */
HETERO_API const char* hetero_cpu_available_isa(int i);
HETERO_API const char* hetero_cpu_source_hash(void);
HETERO_API const char* hetero_cpu_error(void);
/* File name of the OpenMP runtime in use, or "" when none was loaded and everything runs on one thread. */
HETERO_API const char* hetero_cpu_openmp(void);

/* y = x r (w + offset), r = (mean(x^2) + eps)^-1/2. round_normed: round x r to the storage type before the
 * weight. With residual: s = x + residual is stored and normalised instead of x. */
typedef struct {
  int64_t rows, width;
  const void *x, *residual /* or NULL */, *weight /* or NULL */;
  int64_t x_stride, residual_stride;
  int dtype, weight_dtype;
  void *y, *s /* or NULL */;
  float* rstd;
  float eps, offset;
  int round_normed;
} hetero_rms_norm_args;
HETERO_API int hetero_cpu_rms_norm(const hetero_rms_norm_args*, int threads);

/* h = g (w + offset), n = x r: dx = r (h - n mean(h n)) [+ gs], dweight = sum over rows of g n. */
typedef struct {
  int64_t rows, width;
  const void *g, *x, *weight /* or NULL */, *gs /* or NULL */;
  int64_t g_stride, x_stride, gs_stride;
  int dtype, weight_dtype;
  const float* rstd;
  float offset;
  void *dx, *dweight /* or NULL */;
} hetero_rms_norm_backward_args;
HETERO_API int hetero_cpu_rms_norm_backward(const hetero_rms_norm_backward_args*, int threads);

/* y = (x - mean) rstd w + b, biased variance. weight and bias share a dtype. */
typedef struct {
  int64_t rows, width;
  const void *x, *weight /* or NULL */, *bias /* or NULL */;
  int64_t x_stride;
  int dtype, weight_dtype;
  void* y;
  float *mean, *rstd;
  float eps;
} hetero_layer_norm_args;
HETERO_API int hetero_cpu_layer_norm(const hetero_layer_norm_args*, int threads);

typedef struct {
  int64_t rows, width;
  const void *g, *x, *weight /* or NULL */;
  int64_t g_stride, x_stride;
  int dtype, weight_dtype;
  const float *mean, *rstd;
  void *dx, *dweight /* or NULL */, *dbias /* or NULL */;
} hetero_layer_norm_backward_args;
HETERO_API int hetero_cpu_layer_norm_backward(const hetero_layer_norm_backward_args*, int threads);

/* y = act(gate) up; backward when g is given: dgate = g up act'(gate), dup = g act(gate). */
enum { HETERO_SILU = 0, HETERO_GELU = 1, HETERO_GELU_TANH = 2 };
typedef struct {
  int64_t rows, width;
  const void *gate, *up, *g /* or NULL: forward */;
  int64_t gate_stride, up_stride, g_stride;
  int dtype, activation;
  void *y, *dgate, *dup;
} hetero_glu_args;
HETERO_API int hetero_cpu_glu(const hetero_glu_args*, int threads);

/* Rotates the first 2 * half of every head of x [batch, tokens, heads, dim] by the angle of its token, by minus
 * the angle when `inverse`. Table row: positions[b, t] when given, which must be below `table_rows`; else
 * (b, t) with table_batch_stride (0: shared by the batch). y is contiguous. */
typedef struct {
  int64_t batch, tokens, heads, dim, half;
  const void* x;
  int64_t x_batch_stride, x_token_stride, x_head_stride;
  int dtype;
  const float *cos, *sin;
  int64_t table_batch_stride, table_stride, table_rows;
  const int64_t* positions; /* [batch, tokens] or NULL */
  int interleaved, inverse;
  void* y;
} hetero_rope_args;
HETERO_API int hetero_cpu_rope(const hetero_rope_args*, int threads);

/* Cross entropy of rows of logits; with z = cap(x) / temperature, cap(x) = softcap tanh(x / softcap) or x for 0:
 *   loss = (1 - e) (lse - z_y) + e mean(lse - z) + z_loss lse^2, 0 where the label is ignore_index
 *   d/dz_v = scale ((1 + 2 z_loss lse) p_v - e / V - (1 - e) 1[v = y])
 * Gradients go to `dlogits` (may be `logits` itself) when it is given: from `lse_in` when that is given (then
 * nothing else is written), else in the same pass as the loss. A NULL scale is 1. */
typedef struct {
  int64_t rows, vocab;
  const void* logits;
  int64_t stride, dlogits_stride;
  int dtype;
  const int64_t* labels;
  int64_t ignore_index;
  float label_smoothing, z_loss, softcap;
  const float* scale /* or NULL */;
  const float* lse_in /* or NULL */;
  float *loss, *lse;
  void* dlogits /* or NULL */;
} hetero_cross_entropy_args;
HETERO_API int hetero_cpu_cross_entropy(const hetero_cross_entropy_args*, int threads);

/* logp = z_y - lse and entropy = lse - sum p z, both 0 where ignored. Backward when dlogits is given (may be
 * `logits` itself), from lse and entropy: dz = g_logp (1[y] - p) - g_entropy p (log p + entropy). */
typedef struct {
  int64_t rows, vocab;
  const void* logits;
  int64_t stride, dlogits_stride;
  int dtype;
  const int64_t* labels;
  int64_t ignore_index;
  float temperature, softcap;
  float *logp, *entropy, *lse;
  const float *g_logp, *g_entropy;
  void* dlogits /* or NULL: forward */;
} hetero_log_prob_args;
HETERO_API int hetero_cpu_log_prob(const hetero_log_prob_args*, int threads);

/* HETERO_OUT_OF_RANGE unless every label is ignore_index or in [0, vocab). */
HETERO_API int hetero_cpu_check_labels(const int64_t* labels, int64_t n, int64_t vocab, int64_t ignore_index);

/* One AdamW step over `count` tensors of sizes[i] adjacent elements. masters[i] or NULL: float32 copy that is
 * updated, the parameter receives it rounded. step counts from 1; gradients are multiplied by *grad_scale. */
typedef struct {
  int64_t count;
  const int64_t* sizes;
  void* const* params;
  const void* const* grads;
  float* const* exp_avgs;
  float* const* exp_avg_sqs;
  float* const* masters /* or NULL */;
  const int *param_dtypes, *grad_dtypes;
  const float* grad_scale /* or NULL */;
  double lr, beta1, beta2, eps, weight_decay;
  int64_t step;
} hetero_adamw_args;
HETERO_API int hetero_cpu_adamw(const hetero_adamw_args*, int threads);

/* *norm = 2-norm of all gradients together, summed in an order that depends on the sizes only; then gradients
 * *= min(1, max_norm / (*norm + 1e-6)). */
typedef struct {
  int64_t count;
  const int64_t* sizes;
  void* const* grads;
  const int* dtypes;
  float max_norm;
  float* norm;
} hetero_clip_args;
HETERO_API int hetero_cpu_clip(const hetero_clip_args*, int threads);

/* y = f(x) elementwise: the functions that the kernels are made of, so that tests can measure their error. */
enum { HETERO_EXP = 0, HETERO_EXP_SOFTMAX = 1, HETERO_TANH = 2, HETERO_SIGMOID = 3, HETERO_NORMAL_CDF = 4 };
typedef struct {
  int64_t n;
  int function;
  const float* x;
  float* y;
} hetero_math_args;
HETERO_API int hetero_cpu_math(const hetero_math_args*, int threads);

#ifdef __cplusplus
}
#endif
#endif
