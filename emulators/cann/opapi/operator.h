// How an aclnn operator is written here. One line or two:
//
//   ACLNN(aclnnAdd, (Tensor self, Tensor other, Scalar alpha, Tensor out)) { write(out, at::add(self, other, alpha)); }
//
// The parameters are the ones CANN documents, in their order, as ATen types; the C signatures follow from them. The body
// runs later, on the stream's thread, with tensors that lie on the operator's own device memory. Call tensors that are
// written out, out*, *Out, *_out or *Ref (and put an Inplace operator's own first): the race checker goes by that.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "descriptors.h"

struct aclOpExecutor {
  const char* name;
  std::function<void()> run;
  std::vector<cann::Range> ranges;                                      // of its tensors
  std::vector<std::pair<aclDataType, std::vector<int64_t>>> tensors;  // for messages
};

namespace cann {

using at::Scalar;
using at::Tensor;
using OptTensor = std::optional<Tensor>;
using OptScalar = std::optional<Scalar>;
using Ints = std::vector<int64_t>;
using OptInts = std::optional<Ints>;
using Floats = std::vector<double>;
using Bools = std::vector<bool>;
using Tensors = std::vector<Tensor>;
using OptTensors = std::optional<Tensors>;
using Scalars = std::vector<Scalar>;
using Text = std::string;

// An output whose shape is known only afterwards: the room for it, and where to say how much of it is used.
struct Sized {
  Tensor room;
  aclTensor* described;
  void write(const Tensor& result);
};

// Copies an operator's result into the memory that the caller gave for it, casting to its dtype; shapes must agree.
void write(const Tensor& out, const Tensor& result);

// How each parameter arrives in C.
template <typename T> struct Argument {  // numbers and bools: as they are
  using C = T;
  static T take(T value) { return value; }
};
template <typename T> struct Optional {
  using C = typename Argument<T>::C;
  static std::optional<T> take(C value) {
    if (!value) return std::nullopt;
    return Argument<T>::take(value);
  }
};
template <typename T> struct Argument<std::optional<T>> : Optional<T> {};
template <> struct Argument<Tensor> {
  using C = const aclTensor*;
  static Tensor take(C t);
};
template <> struct Argument<Sized> {
  using C = aclTensor*;
  static Sized take(C t) { return {Argument<Tensor>::take(t), t}; }
};
template <> struct Argument<Scalar> {
  using C = const aclScalar*;
  static Scalar take(C s);
};
template <> struct Argument<Text> {
  using C = const char*;
  static Text take(C s) { return s ? s : ""; }
};
#define CANN_ARRAY_ARGUMENT(TYPE, DESCRIBED)        \
  template <> struct Argument<TYPE> {               \
    using C = const DESCRIBED*;                     \
    static TYPE take(C array) {                     \
      TORCH_CHECK(array, "an array is null");       \
      return array->values;                         \
    }                                               \
  };
CANN_ARRAY_ARGUMENT(Ints, aclIntArray)
CANN_ARRAY_ARGUMENT(Floats, aclFloatArray)
CANN_ARRAY_ARGUMENT(Bools, aclBoolArray)
template <> struct Argument<Tensors> {
  using C = const aclTensorList*;
  static Tensors take(C list);
};
template <> struct Argument<Scalars> {
  using C = const aclScalarList*;
  static Scalars take(C list);
};

// Tells Argument<Tensor>::take that the operator's next parameter is taken.
void next_parameter();

// Puts the operator's work together; `name` is followed by '\0' and the text of its parameters. Reports what is wrong with its arguments as CANN does, by a code.
int prepare(const char* name, uint64_t* workspace, aclOpExecutor** executor, const std::function<std::function<void()>()>& bind);
int launch(void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream);
struct Registered {
  explicit Registered(const char* name);
};

// Whether the operator is documented to take float64.
bool takes_float64(const char* name);

using Symbol = void (*)();

// ACLNN_RULE's: null for an operator that has none.
Symbol rule_of(const char* name);
struct Rule {
  Rule(const char* name, Symbol rule);
};

// One for all operators of the same parameters: what is compiled for each operator is a jump to it.
template <typename... P>
__attribute__((noinline)) int prepare_call(const char* name, void (*body)(P...), typename Argument<std::decay_t<P>>::C... given,
                                           uint64_t* bytes, aclOpExecutor** executor) {
  return prepare(name, bytes, executor, [&] {
    // Braces: from left to right.
    std::tuple<std::decay_t<P>...> taken{(next_parameter(), Argument<std::decay_t<P>>::take(given))...};
    if (const Symbol rule = rule_of(name)) std::apply(reinterpret_cast<void (*)(P...)>(rule), taken);
    return std::function<void()>([taken = std::move(taken), body] { std::apply(body, taken); });
  });
}

template <auto Body, const char* (*Name)()> struct Entry;
template <typename... P, void (*Body)(P...), const char* (*Name)()> struct Entry<Body, Name> {
  static int workspace(typename Argument<std::decay_t<P>>::C... given, uint64_t* bytes, aclOpExecutor** executor) {
    return prepare_call<P...>(Name(), Body, given..., bytes, executor);
  }
};

}  // namespace cann

// dlsym() resolves an indirect function (ifunc) to what its resolver returns: an exported C name for a template's instance.
#define ACLNN(NAME, PARAMETERS)                                                                                     \
  static void NAME##_body PARAMETERS;                                                                               \
  static const char* NAME##_name() { return #NAME "\0" #PARAMETERS; }                                                                \
  static ::cann::Registered NAME##_registered(#NAME);                                                               \
  extern "C" {                                                                                                      \
  __attribute__((used)) static ::cann::Symbol NAME##_workspace_resolver() {                                         \
    return reinterpret_cast<::cann::Symbol>(&::cann::Entry<&NAME##_body, &NAME##_name>::workspace);                          \
  }                                                                                                                 \
  __attribute__((used)) static ::cann::Symbol NAME##_launch_resolver() {                                             \
    return reinterpret_cast<::cann::Symbol>(&::cann::launch);                                                       \
  }                                                                                                                 \
  __attribute__((visibility("default"), ifunc(#NAME "_workspace_resolver"))) void NAME##GetWorkspaceSize();         \
  __attribute__((visibility("default"), ifunc(#NAME "_launch_resolver"))) void NAME();                              \
  }                                                                                                                 \
  static void NAME##_body PARAMETERS

// What an operator refuses when it is asked for, by a code and at the call that made it, as hardware does; written after
// the operator, with the same parameters. What only tensors' contents can tell belongs into its body and fails later.
//
//   ACLNN_RULE(aclnnAdd, (Tensor self, Tensor other, Scalar alpha, Tensor out)) { TORCH_CHECK(self.dim() < 9, "..."); }
#define ACLNN_RULE(NAME, PARAMETERS)                                                                                      \
  static void NAME##_rule PARAMETERS;                                                                                     \
  static_assert(std::is_same_v<decltype(&NAME##_rule), decltype(&NAME##_body)>, "a rule has its operator's parameters");  \
  static ::cann::Rule NAME##_ruled(#NAME, reinterpret_cast<::cann::Symbol>(&NAME##_rule));                                \
  static void NAME##_rule PARAMETERS
