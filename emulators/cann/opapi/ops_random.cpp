// Random numbers. Sequences are not hardware's, but as there the same seed and offset give the same numbers.
#include "outputs.h"
#include "random.h"

using namespace cann;

namespace {

// Drawn in the order of elements, whatever memory they lie in.
template <typename Draw>
void fill(const Tensor& self, const Draw& draw) {
  Tensor drawn = at::empty(self.sizes(), self.options().memory_format(at::MemoryFormat::Contiguous));
  draw(drawn);
  self.copy_(drawn);
}

Tensor standard_normal(at::IntArrayRef sizes, uint64_t seed, uint64_t offset) {
  return at::empty(sizes, at::kFloat).normal_(0, 1, generator(seed, offset));
}

// A dropout mask has one bit an element, set where it is kept, in whole groups of 128 bits.
void keep_bits(const Tensor& mask, int64_t elements, double drop, uint64_t seed, uint64_t offset) {
  TORCH_CHECK(mask.numel() * 8 >= elements, "the mask has ", mask.numel() * 8, " bits for ", elements, " elements");
  const Tensor kept = at::ones({mask.numel() * 8}, at::kByte);
  kept.bernoulli_(1 - drop, generator(seed, offset));
  const Tensor weights = at::bitwise_left_shift(at::ones({8}, at::kLong), at::arange(8, at::kLong));
  mask.copy_((kept.reshape({-1, 8}).to(at::kLong) * weights).sum(1).reshape(mask.sizes()));
}

Tensor bits(const Tensor& mask, at::IntArrayRef sizes) {
  const int64_t n = c10::multiply_integers(sizes);
  TORCH_CHECK(mask.numel() * 8 >= n, "the mask has ", mask.numel() * 8, " bits for ", n, " elements");
  const Tensor bytes = mask.flatten().to(at::kLong).unsqueeze(1);
  return at::bitwise_right_shift(bytes, at::arange(8, at::kLong))
      .bitwise_and(1)
      .flatten()
      .slice(0, 0, n)
      .reshape(sizes);
}

Tensor dropped(const Tensor& self, const Tensor& mask, double drop) {
  return drop >= 1 ? at::zeros_like(self) : wide(self) * bits(mask, self.sizes()) / (1 - drop);
}

}  // namespace

ACLNN(aclnnInplaceNormal, (Tensor selfRef, float mean, float std, int64_t seed, int64_t offset)) {
  selfRef.copy_(standard_normal(selfRef.sizes(), seed, offset) * std + mean);
}
ACLNN(aclnnNormalFloatFloat, (float mean, float std, int64_t seed, int64_t offset, Tensor out)) {
  write(out, standard_normal(out.sizes(), seed, offset) * std + mean);
}
ACLNN(aclnnNormalFloatTensor, (float mean, Tensor std, int64_t seed, int64_t offset, Tensor out)) {
  write(out, standard_normal(out.sizes(), seed, offset) * std + mean);
}
ACLNN(aclnnNormalTensorFloat, (Tensor mean, float std, int64_t seed, int64_t offset, Tensor out)) {
  write(out, standard_normal(out.sizes(), seed, offset) * std + mean);
}
ACLNN(aclnnNormalTensorTensor, (Tensor mean, Tensor std, int64_t seed, int64_t offset, Tensor out)) {
  write(out, standard_normal(out.sizes(), seed, offset) * std + mean);
}
ACLNN(aclnnInplaceUniform, (Tensor selfRef, double from, double to, int64_t seed, int64_t offset)) {
  fill(selfRef, [&](Tensor& t) { t.uniform_(from, to, generator(seed, offset)); });
}
ACLNN(aclnnInplaceBernoulli, (Tensor selfRef, Scalar p, uint64_t seed, uint64_t offset)) {
  fill(selfRef, [&](Tensor& t) { t.bernoulli_(p.toDouble(), generator(seed, offset)); });
}
ACLNN(aclnnInplaceBernoulliTensor, (Tensor selfRef, Tensor p, uint64_t seed, uint64_t offset)) {
  const Tensor chances = p.to(at::kFloat).contiguous();
  fill(selfRef, [&](Tensor& t) { t.bernoulli_(chances, generator(seed, offset)); });
}
ACLNN(aclnnInplaceRandom, (Tensor selfRef, int64_t from, int64_t to, int64_t seed, int64_t offset)) {
  fill(selfRef, [&](Tensor& t) { t.random_(from, to, generator(seed, offset)); });
}
ACLNN(aclnnSimThreadExponential, (Tensor selfRef, int64_t, double rate, int64_t seed, int64_t offset)) {
  fill(selfRef, [&](Tensor& t) { t.exponential_(rate, generator(seed, offset)); });
}
ACLNN(aclnnRandperm, (int64_t n, int64_t seed, int64_t offset, Tensor out)) {
  write(out, at::randperm(n, generator(seed, offset), at::kLong));
}
ACLNN(aclnnMultinomial, (Tensor self, int64_t n, bool replacement, uint64_t seed, uint64_t offset, Tensor out)) {
  write(out, at::multinomial(wide(self), n, replacement, generator(seed, offset)));
}

ACLNN(aclnnDropoutGenMask, (Ints shape, double drop, int64_t seed, int64_t offset, Tensor out)) {
  keep_bits(out, c10::multiply_integers(shape), drop, seed, offset);
}
ACLNN(aclnnDropoutGenMaskV2, (Ints shape, double drop, int64_t seed, int64_t offset, int32_t, Tensor out)) {
  keep_bits(out, c10::multiply_integers(shape), drop, seed, offset);
}
ACLNN(aclnnDropoutDoMask, (Tensor self, Tensor mask, double drop, Tensor out)) {
  write(out, dropped(self, mask, drop));
}
