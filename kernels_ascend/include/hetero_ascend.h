/* hetero's Ascend kernels: the C ABI. No torch, no Python: device pointers, sizes, strides and dtype codes.
 *
 * - A dtype code is DLPack's type code and bit width, (code << 8) | bits: float32, float16, bfloat16.
 * - A matrix argument is a base pointer and the distance between rows, counted in elements; within a row elements are
 *   adjacent. Nothing needs to be aligned beyond its element size.
 * - Maths is float32 whatever the storage; each result is rounded once.
 * - A call returns once the kernels are on the stream: HETERO_OK or an error, whose text hetero_ascend_error() gives
 * for the calling thread. Nothing is copied or synchronised, and no memory is allocated.
 * - Labels and positions live on the device, so that one out of range cannot be an error: its row comes out as NaN.
 * A pointer marked "or NULL" leaves that operand or result out.
 */
#ifndef HETERO_ASCEND_H
#define HETERO_ASCEND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HETERO_API __attribute__((visibility("default")))

enum { HETERO_F32 = (2 << 8) | 32, HETERO_F16 = (2 << 8) | 16, HETERO_BF16 = (4 << 8) | 16 };
enum { HETERO_OK = 0, HETERO_BAD_ARGUMENT = 1 };

/* Where a kernel goes: an aclrtStream, the number of vector cores to use, and the bytes of unified buffer that a core's
 * kernel may fill (184 KiB less 256 bytes in ordinary builds for A2 and A3; less makes smaller tiles). */
typedef struct {
  void* stream;
  int32_t cores;
  uint32_t unified_buffer;
} hetero_ascend_place;

HETERO_API const char* hetero_ascend_error(void);
HETERO_API const char* hetero_ascend_source_hash(void);

/* y = silu(gate) up; backward when g is given: dgate = g up silu'(gate), dup = g silu(gate). y, dgate, dup contiguous.
 */
typedef struct {
  int64_t rows, width;
  const void *gate, *up, *g /* or NULL: forward */;
  int64_t gate_stride, up_stride, g_stride;
  int32_t dtype;
  void *y, *dgate, *dup;
} hetero_swiglu_args;
HETERO_API int hetero_ascend_swiglu(const hetero_swiglu_args*, const hetero_ascend_place*);

/* s = x + residual, rounded to the storage type; y = s r (w + offset), r = (mean(s^2) + eps)^-1/2. round_normed: round
 * s r to the storage type before the weight. weight_dtype is dtype or float32. */
typedef struct {
  int64_t rows, width;
  const void *x, *residual, *weight /* or NULL */;
  int64_t x_stride, residual_stride;
  int32_t dtype, weight_dtype;
  void *y, *s;
  float* rstd;
  float eps, offset;
  int32_t round_normed;
} hetero_add_rms_norm_args;
HETERO_API int hetero_ascend_add_rms_norm(const hetero_add_rms_norm_args*, const hetero_ascend_place*);

/* h = g (w + offset), n = s r: ds = r (h - n mean(h n)) + gs, dweight = sum over rows of g n. `work` holds
 * hetero_ascend_add_rms_norm_backward_work() floats. The order of all sums depends on sizes and cores only. */
typedef struct {
  int64_t rows, width;
  const void *g, *gs, *s, *weight /* or NULL */;
  int64_t g_stride, gs_stride, s_stride;
  int32_t dtype, weight_dtype;
  const float* rstd;
  float offset;
  void *ds, *dweight /* or NULL */;
  float* work;
} hetero_add_rms_norm_backward_args;
HETERO_API int64_t hetero_ascend_add_rms_norm_backward_work(int64_t rows, int64_t width, int32_t cores);
HETERO_API int hetero_ascend_add_rms_norm_backward(const hetero_add_rms_norm_backward_args*,
                                                   const hetero_ascend_place*);

/* Rotates the first 2 * half of every head of x [batch, tokens, heads, dim] by the angle of its token, by minus the
 * angle when `inverse`. Table row: positions[b, t] when given, which must be below `table_rows`; else (b, t) with
 * table_batch_stride (0: shared by the batch). y is contiguous. */
typedef struct {
  int64_t batch, tokens, heads, dim, half;
  const void* x;
  int64_t x_batch_stride, x_token_stride, x_head_stride;
  int32_t dtype;
  const float *cos, *sin;
  int64_t table_batch_stride, table_stride, table_rows, table_size /* elements that may be read */;
  const int64_t* positions; /* [batch, tokens] or NULL */
  int32_t interleaved, inverse;
  void* y;
} hetero_rope_args;
HETERO_API int hetero_ascend_rope(const hetero_rope_args*, const hetero_ascend_place*);

/* Cross entropy of rows of logits; with z = softcap tanh(x / softcap), or x for 0:
 *   loss = (1 - e) (lse - z_y) + e mean(lse - z) + z_loss lse^2, 0 where the label is ignore_index
 * Backward when dlogits (may be `logits` itself) is given, from lse and scale:
 *   d/dz_v = scale ((1 + 2 z_loss lse) p_v - e / V - (1 - e) 1[v = y]) */
typedef struct {
  int64_t rows, vocab;
  const void* logits;
  int64_t stride, dlogits_stride;
  int32_t dtype;
  const int64_t* labels;
  int64_t ignore_index;
  float label_smoothing, z_loss, softcap;
  const float* scale /* backward only */;
  float *loss, *lse;
  void* dlogits /* or NULL: forward */;
} hetero_cross_entropy_args;
HETERO_API int hetero_ascend_cross_entropy(const hetero_cross_entropy_args*, const hetero_ascend_place*);

/* With z = softcap tanh(x / softcap) / temperature: logp = z_y - lse and entropy = lse - sum p z, both 0 where ignored.
 * Backward when dlogits (may be `logits` itself) is given, from lse and entropy:
 *   d/dz = g_logp (1[y] - p) - g_entropy p (log p + entropy) */
typedef struct {
  int64_t rows, vocab;
  const void* logits;
  int64_t stride, dlogits_stride;
  int32_t dtype;
  const int64_t* labels;
  int64_t ignore_index;
  float temperature, softcap;
  float *logp, *entropy, *lse;
  const float *g_logp, *g_entropy;
  void* dlogits /* or NULL: forward */;
} hetero_log_prob_args;
HETERO_API int hetero_ascend_log_prob(const hetero_log_prob_args*, const hetero_ascend_place*);

#ifdef __cplusplus
}
#endif
#endif
