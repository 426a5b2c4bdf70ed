// Operators run on the CPU's kernels, on the device's own bytes. What a device refuses is refused before.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>

#include <unordered_map>
#include <unordered_set>

#include "memory.h"
#include "register.h"
#include "streams.h"
#include "tensors.h"

namespace hetero {
namespace {

// Operators that take tensors of the CPU beside the device's, as CUDA's own do: indices and lengths.
const std::unordered_set<std::string>& mixed() {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::index", "aten::_unsafe_index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
      "aten::_unsafe_index_put", "aten::_pack_padded_sequence", "aten::_pad_packed_sequence",
      "aten::_pack_padded_sequence_backward", "aten::_ctc_loss", "aten::_ctc_loss_backward", "aten::tensor_split"};
  return *names;
}

struct Counts {
  std::mutex lock;
  std::unordered_map<std::string, int64_t> all;
};
Counts& counts() {
  static auto* one = new Counts;
  return *one;
}

// Visits every tensor of a value: of a list, or of a list of optional ones.
template <class Visit>
void each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector())
      if (t.defined()) visit(t);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      if (t && t->defined()) visit(*t);
  }
}

template <class Change>
c10::IValue changed(const c10::IValue& value, Change&& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    std::vector<at::Tensor> made;
    for (const at::Tensor& t : value.toTensorVector()) made.push_back(change(t));
    return made;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> made;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      made.push_back(t ? std::optional<at::Tensor>(change(*t)) : std::nullopt);
    return made;
  }
  return value;
}

// The device that the operator runs on; raises where its arguments are on several.
c10::Device place(const std::string& name, const c10::ArrayRef<c10::IValue> arguments) {
  std::optional<c10::Device> found, host;
  for (const c10::IValue& value : arguments)
    each_tensor(value, [&](const at::Tensor& t) {
      if (ours(t)) {
        if (!found) found = t.device();
        TORCH_CHECK(*found == t.device(), "Expected all tensors to be on the same device, but found at least two devices, ",
                    *found, " and ", t.device(), "! (when running ", name, ")");
      } else if (t.dim() > 0 && t.device().is_cpu()) {
        host = t.device();
      }
    });
  TORCH_CHECK(!found || !host || mixed().count(name),
              "Expected all tensors to be on the same device, but found at least two devices, ", *found,
              " and cpu! (when running ", name, ")");
  if (found) return *found;
  for (const c10::IValue& value : arguments)
    if (value.isDevice() && value.toDevice().type() == machine().type && value.toDevice().has_index()) return value.toDevice();
  return device(current_device());
}

// The CPU's own random numbers, set aside while an operator that knows no other source draws the device's.
class DefaultGenerator {
 public:
  explicit DefaultGenerator(c10::DeviceIndex index) : hold_(lock()) {
    at::Generator cpu = at::detail::getDefaultCPUGenerator();
    kept_ = cpu.get_state();
    cpu.set_state(draw(default_generator(index)).get_state());
  }
  ~DefaultGenerator() {
    at::Generator cpu = at::detail::getDefaultCPUGenerator();
    cpu.set_state(kept_);
  }

 private:
  static std::mutex& lock() {
    static auto* one = new std::mutex;
    return *one;
  }
  std::lock_guard<std::mutex> hold_;
  at::Tensor kept_;
};

bool is_generator(const c10::Argument& argument) {
  auto type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::GeneratorType;
}

}  // namespace

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::string& name = schema.name();
  {
    Counts& c = counts();
    std::lock_guard<std::mutex> hold(c.lock);
    ++c.all[schema.overload_name().empty() ? name : name + "." + schema.overload_name()];
  }
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU))
    TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", name, "' with arguments from the '", toString(machine().key),
                                "' backend: it has no kernel for the CPU either, on which this emulated device computes");
  const size_t count = schema.arguments().size(), first = stack->size() - count;
  const c10::Device where = place(name, c10::ArrayRef<c10::IValue>(stack->data() + first, count));
  const c10::DeviceGuard guard(where);
  launch(current_stream(where.index()), name.c_str());

  Aliases aliases(name.c_str());
  bool draws = op.hasTag(at::Tag::nondeterministic_seeded);
  for (size_t i = 0; i < count; ++i) {
    c10::IValue& value = (*stack)[first + i];
    const c10::Argument& argument = schema.arguments()[i];
    if (is_generator(argument)) {
      value = draw(value.isNone() ? default_generator(where.index()) : value.toGenerator());
      draws = false;
    } else if (value.isDevice()) {
      if (value.toDevice().type() == machine().type) value = c10::Device(c10::kCPU);
    } else {
      const bool write = argument.alias_info() && argument.alias_info()->isWrite();
      value = changed(value, [&](const at::Tensor& t) { return ours(t) ? aliases.cpu(t, write) : t; });
    }
  }
  {
    const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
    std::optional<DefaultGenerator> random;
    if (draws) random.emplace(where.index());
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  aliases.finish();
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
    (*stack)[i] = changed((*stack)[i], [&](const at::Tensor& t) { return aliases.device(t, where); });
}

std::vector<std::pair<std::string, int64_t>> fallen_through() {
  Counts& c = counts();
  std::lock_guard<std::mutex> hold(c.lock);
  return {c.all.begin(), c.all.end()};
}

}  // namespace hetero
