#include "operator.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <unordered_map>

namespace cann {
namespace {

constexpr int kNullParameter = 161001, kBadParameter = 161002, kInnerError = 561000;

std::vector<std::string>& registered() {
  static auto* names = new std::vector<std::string>;
  return *names;
}

// How often this process ran each operator. The names are appended to the file that HETERO_CANN_COVERAGE names, each at
// once: processes may be killed.
struct Coverage {
  std::mutex lock;
  std::map<std::string, int64_t> ran;
  const char* path = std::getenv("HETERO_CANN_COVERAGE");

  void note(const char* name) {
    std::lock_guard<std::mutex> hold(lock);
    if (!ran[name]++ && path) std::ofstream(path, std::ios::app) << std::string(name) + "\n";
  }
};

Coverage& coverage() {
  static auto* all = new Coverage;
  return *all;
}

std::string message(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

// The tensors that the operator now being prepared by this thread was given.
struct Taken {
  int parameter = -1;
  std::vector<std::pair<int, Range>> ranges;
  std::vector<std::pair<aclDataType, std::vector<int64_t>>> tensors;
};
thread_local Taken taken;

// "aclnnMatmul (Float [2, 3], Float [4, 5])": so that an error says what was asked for.
std::string called(const char* name, const decltype(Taken::tensors)& tensors) {
  std::ostringstream text;
  text << name << " (";
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i == 12) {
      text << ", and " << tensors.size() - i << " more";
      break;
    }
    text << (i ? ", " : "") << torch_type(tensors[i].first) << " " << at::IntArrayRef(tensors[i].second);
  }
  text << ")";
  return text.str();
}

// Which parameters are written, by their names: operator.h says how.
std::vector<bool> written(const char* name) {
  static const bool wanted = std::getenv("HETERO_CANN_RACES") != nullptr;
  std::vector<bool> all;
  if (!wanted) return all;
  const std::string text = name + std::strlen(name) + 1;
  const bool inplace = std::strstr(name, "Inplace");
  const auto ends = [](const std::string& word, const char* end) {
    const size_t n = std::strlen(end);
    return word.size() >= n && !word.compare(word.size() - n, n, end);
  };
  for (size_t begin = 1; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.rfind(')'));
    const std::string word = text.substr(begin, end - begin);
    const std::string called = word.substr(word.rfind(' ') + 1);
    all.push_back((inplace && all.empty()) || !called.compare(0, 3, "out") || ends(called, "Out") || ends(called, "_out") || ends(called, "Ref"));
    begin = end + 1;
  }
  return all;
}

// Bytes a strided view spans from its first element.
size_t span(const aclTensor* t) {
  int64_t last = 0;
  for (size_t i = 0; i < t->sizes.size(); ++i) {
    if (t->sizes[i] == 0) return 0;
    last += (t->sizes[i] - 1) * t->strides[i];
  }
  return size_t(last + 1) * c10::elementSize(torch_type(t->type));
}

}  // namespace

namespace {
std::unordered_map<std::string, Symbol>& rules() {
  static auto* all = new std::unordered_map<std::string, Symbol>;
  return *all;
}
}  // namespace

Rule::Rule(const char* name, Symbol rule) { rules()[name] = rule; }

Symbol rule_of(const char* name) {
  const auto found = rules().find(name);
  return found == rules().end() ? nullptr : found->second;
}

Registered::Registered(const char* name) { registered().push_back(name); }

Tensor Argument<Tensor>::take(C t) {
  TORCH_CHECK(t, "a tensor that it needs is null");
  torch_type(t->type);
  taken.tensors.push_back({t->type, t->sizes});
  const size_t bytes = span(t);
  if (bytes) {
    const char* data = static_cast<const char*>(t->data) + t->offset * int64_t(c10::elementSize(torch_type(t->type)));
    const std::string wrong = off_device(data, bytes);
    TORCH_CHECK(wrong.empty(), "the memory of a tensor of shape ", at::IntArrayRef(t->sizes), " ", wrong);
    const bool dense = bytes == size_t(c10::multiply_integers(t->sizes)) * c10::elementSize(torch_type(t->type));
    taken.ranges.push_back({taken.parameter, Range{data, bytes, false, dense}});
  }
  TORCH_CHECK(t->type != ACL_BF16 || soc().bf16, "bfloat16 is not supported on ", soc().name);
  return view(t);
}

Scalar Argument<Scalar>::take(C s) {
  TORCH_CHECK(s, "a scalar that it needs is null");
  return s->value;
}

Tensors Argument<Tensors>::take(C list) {
  TORCH_CHECK(list, "a tensor list is null");
  Tensors out;
  for (const auto* t : list->values) out.push_back(Argument<Tensor>::take(t));
  return out;
}

Scalars Argument<Scalars>::take(C list) {
  TORCH_CHECK(list, "a scalar list is null");
  Scalars out;
  for (const auto* s : list->values) out.push_back(s->value);
  return out;
}

void write(const Tensor& out, const Tensor& result) {
  TORCH_CHECK(out.sizes() == result.sizes(), "its output has room for ", out.sizes(), ", the result is ", result.sizes());
  out.copy_(result);
}

void Sized::write(const Tensor& result) {
  TORCH_CHECK(result.numel() <= room.numel(), "its output has room for ", room.numel(), " elements, the result has ", result.numel());
  at::from_blob(room.data_ptr(), result.sizes(), room.options()).copy_(result);
  described->sizes = result.sizes().vec();
}

void next_parameter() { ++taken.parameter; }

int prepare(const char* name, uint64_t* workspace, aclOpExecutor** executor, const std::function<std::function<void()>()>& bind) {
  try {
    *workspace = 0;
    taken = {};
    auto made = std::make_unique<aclOpExecutor>(aclOpExecutor{name, bind(), {}, {}});
    const std::vector<bool> writes = written(name);
    for (auto& [parameter, range] : taken.ranges) {
      range.writes = size_t(parameter) < writes.size() && writes[size_t(parameter)];
      made->ranges.push_back(range);
    }
    for (const auto& [type, sizes] : taken.tensors) {
      TORCH_CHECK(type != ACL_DOUBLE || takes_float64(name), "float64 is not among the data types it is documented to take");
    }
    made->tensors = std::move(taken.tensors);
    *executor = made.release();
    return 0;
  } catch (const std::exception& error) {
    return fail(kBadParameter, called(name, taken.tensors) + ": " + message(error));
  }
}

int launch(void*, uint64_t, aclOpExecutor* executor, aclrtStream stream) {
  if (!executor) return fail(kNullParameter, "an aclnn operator was launched without its executor");
  const std::shared_ptr<aclOpExecutor> owned(executor);
  if (fault("op", owned->name)) return fail(kInnerError, std::string(owned->name) + ": injected fault");
  return enqueue(stream, owned->name, [owned] {
    coverage().note(owned->name);
    at::AutoDispatchBelowADInplaceOrView no_autograd;
    try {
      owned->run();
      return 0;
    } catch (const std::exception& error) {
      return fail(ACL_ERROR_RT_AICORE_EXCEPTION, called(owned->name, owned->tensors) + ": " + message(error));
    }
  }, owned->ranges);
}

}  // namespace cann

extern "C" {

CANN_EXPORT int aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  delete executor;
  return 0;
}

// For `hetero emulate ascend --coverage`: the operators that are here, one a line.
CANN_EXPORT const char* hetero_cann_operators() {
  static const std::string* all = [] {
    auto* text = new std::string;
    for (const auto& name : cann::registered()) *text += name + "\n";
    return text;
  }();
  return all->c_str();
}

// For tests: "aclnnAdd 3" a line, how often each was run until now.
CANN_EXPORT const char* hetero_cann_ran() {
  thread_local std::string text;
  std::lock_guard<std::mutex> hold(cann::coverage().lock);
  text.clear();
  for (const auto& [name, times] : cann::coverage().ran) text += name + " " + std::to_string(times) + "\n";
  return text.c_str();
}
}
