// The versions of flash attention: each takes more than the one before, in an order of its own.
#include "attention.h"

using namespace cann;

#define OPERANDS Tensor query, Tensor key, Tensor value
#define ROPE_OPERANDS Tensor query, OptTensor query_rope, Tensor key, OptTensor key_rope, Tensor value
#define MASKS OptTensor pse, OptTensor dropped, OptTensor padding, OptTensor mask
#define SAVED Tensor max, Tensor sum, OptTensor, OptTensor attention
#define SETTINGS \
  double scale, double keep, int64_t before, int64_t after, int64_t heads, Text layout, int64_t precise, int64_t sparse
#define ENDS OptInts prefix, OptInts query_ends, OptInts key_ends
#define STARTS OptInts query_start, OptInts key_start
#define RESULTS OptTensor outMax, OptTensor outSum, OptTensor, Tensor outScore
#define GRADIENTS Tensor outDq, Tensor outDk, Tensor outDv, OptTensor outDpse
#define ROPE_GRADIENTS \
  Tensor outDq, OptTensor outDq_rope, Tensor outDk, OptTensor outDk_rope, Tensor outDv, OptTensor outDpse
// SETUP, in parentheses, completes `call`. Macros in the arguments are expanded before ACLNN reads the parameters' names.
#define FLASH(NAME, SETUP, RUN, ...) \
  ACLNN(NAME, (__VA_ARGS__)) {       \
    Attention call = CALL;           \
    SETUP;                           \
    RUN;                             \
  }                                  \
  ACLNN_RULE(NAME, (__VA_ARGS__)) {  \
    Attention call = CALL;           \
    SETUP;                           \
    check(call);                     \
  }

#pragma GCC diagnostic ignored "-Wunused-parameter"  // rules read few of them

namespace {

OptTensor present(const OptTensor& t) { return t && t->numel() ? t : std::nullopt; }
Ints list(const OptInts& values) { return values.value_or(Ints{}); }

Attention call_of(OPERANDS, MASKS, const OptInts& prefix, SETTINGS) {
  TORCH_CHECK(!present(padding), "padding_mask is not supported");
  Attention call;
  call.query = query, call.key = key, call.value = value;
  call.pse = present(pse), call.dropped = present(dropped), call.mask = present(mask), call.prefix = list(prefix);
  call.scale = scale, call.keep = keep, call.before = before, call.after = after, call.heads = heads;
  call.layout = layout, call.precise = precise, call.sparse = sparse;
  return call;
}

}  // namespace

#define CALL                                                                                                          \
  call_of(query, key, value, pse, dropped, padding, mask, prefix, scale, keep, before, after, heads, layout, precise, \
          sparse)
#define WITH_ENDS call.query_ends = list(query_ends), call.key_ends = list(key_ends)
#define WITH_STARTS call.query_start = list(query_start), call.key_start = list(key_start), call.pse_type = pse_type
#define WITH_ROPE call.query_rope = present(query_rope), call.key_rope = present(key_rope)
#define WITH_SINK call.sink = present(sink)
#define WITH_ORDER call.statistics_layout = statistics_layout
#define FORWARD attend(call, outMax, outSum, outScore)
#define BACKWARD(ROPE_GRADS, SINK)                          \
  attend_backward(call, grad, max, sum, present(attention), \
                  {outDq, outDk, outDv, ROPE_GRADS, outDpse, SINK})
#define NO_ROPES {}, {}
#define ROPES present(outDq_rope), present(outDk_rope)

FLASH(aclnnFlashAttentionScore, (void()), FORWARD, OPERANDS, MASKS, OptInts prefix, SETTINGS, RESULTS)
FLASH(aclnnFlashAttentionScoreV2, (WITH_STARTS), FORWARD, OPERANDS, MASKS, OptInts prefix, STARTS, SETTINGS, int64_t
      pse_type, RESULTS)
FLASH(aclnnFlashAttentionScoreV3, (WITH_STARTS, WITH_SINK), FORWARD, OPERANDS, MASKS, OptTensor sink, OptInts prefix,
      STARTS, SETTINGS, int64_t pse_type, RESULTS)
FLASH(aclnnFlashAttentionVarLenScore, (WITH_ENDS), FORWARD, OPERANDS, MASKS, ENDS, SETTINGS, RESULTS)
FLASH(aclnnFlashAttentionVarLenScoreV2, (WITH_ENDS, WITH_STARTS), FORWARD, OPERANDS, MASKS, ENDS, STARTS, SETTINGS,
      int64_t pse_type, RESULTS)
FLASH(aclnnFlashAttentionVarLenScoreV3, (WITH_ENDS, WITH_STARTS, WITH_ROPE), FORWARD, ROPE_OPERANDS, MASKS, ENDS,
      STARTS, SETTINGS, int64_t pse_type, RESULTS)
FLASH(aclnnFlashAttentionVarLenScoreV4, (WITH_ENDS, WITH_ORDER), FORWARD, OPERANDS, MASKS, ENDS, SETTINGS, Text
      statistics_layout, RESULTS)
FLASH(aclnnFlashAttentionVarLenScoreV5, (WITH_ENDS, WITH_STARTS, WITH_ROPE, WITH_SINK, WITH_ORDER), FORWARD,
      ROPE_OPERANDS, MASKS, OptTensor sink, ENDS, STARTS, SETTINGS, int64_t pse_type, Text statistics_layout, RESULTS)
FLASH(aclnnFlashAttentionScoreGrad, (void()), BACKWARD(NO_ROPES, {}), OPERANDS, Tensor grad, MASKS, SAVED, OptInts
      prefix, SETTINGS, GRADIENTS)
FLASH(aclnnFlashAttentionScoreGradV2, (WITH_STARTS), BACKWARD(NO_ROPES, {}), OPERANDS, Tensor grad, MASKS, SAVED,
      OptInts prefix, STARTS, SETTINGS, int64_t pse_type, GRADIENTS)
FLASH(aclnnFlashAttentionScoreGradV3, (WITH_STARTS, WITH_SINK), BACKWARD(NO_ROPES, outDsink), OPERANDS, Tensor grad,
      MASKS, SAVED, OptTensor sink, OptInts prefix, STARTS, SETTINGS, int64_t pse_type, GRADIENTS, OptTensor outDsink)
FLASH(aclnnFlashAttentionUnpaddingScoreGrad, (WITH_ENDS), BACKWARD(NO_ROPES, {}), OPERANDS, Tensor grad, MASKS, SAVED,
      ENDS, SETTINGS, GRADIENTS)
FLASH(aclnnFlashAttentionUnpaddingScoreGradV2, (WITH_ENDS, WITH_STARTS), BACKWARD(NO_ROPES, {}), OPERANDS, Tensor grad,
      MASKS, SAVED, ENDS, STARTS, SETTINGS, int64_t pse_type, GRADIENTS)
FLASH(aclnnFlashAttentionUnpaddingScoreGradV3, (WITH_ENDS, WITH_STARTS, WITH_ROPE), BACKWARD(ROPES, {}),
      ROPE_OPERANDS, Tensor grad, MASKS, SAVED, ENDS, STARTS, SETTINGS, int64_t pse_type, ROPE_GRADIENTS)
FLASH(aclnnFlashAttentionUnpaddingScoreGradV4, (WITH_ENDS, WITH_ORDER), BACKWARD(NO_ROPES, {}), OPERANDS, Tensor grad,
      MASKS, SAVED, ENDS, SETTINGS, GRADIENTS, Text statistics_layout)
FLASH(aclnnFlashAttentionUnpaddingScoreGradV5, (WITH_ENDS, WITH_STARTS, WITH_ROPE, WITH_SINK, WITH_ORDER),
      BACKWARD(ROPES, outDsink), ROPE_OPERANDS, Tensor grad, MASKS, SAVED, OptTensor sink, ENDS, STARTS, SETTINGS,
      int64_t pse_type, Text statistics_layout, ROPE_GRADIENTS, OptTensor outDsink)
