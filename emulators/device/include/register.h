// Each source of core/ hands its part to torch; start() calls them in this order.
#pragma once
#include <string>
#include <vector>

#include "machine.h"

namespace hetero {

void register_guard();
void register_hooks();
void register_operators();
void register_fallback();
void register_autocast();

const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);
// A CPU generator for one use of a device's: its numbers depend on that one's seed and how often it was used.
at::Generator draw(at::Generator device);

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// Operators that ran through the fallback, with counts.
std::vector<std::pair<std::string, int64_t>> fallen_through();

at::Tensor& copy(at::Tensor& self, const at::Tensor& src, bool non_blocking);

}  // namespace hetero
