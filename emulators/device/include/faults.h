// Faults to inject, in the grammar of the other emulators: kind[:name]@count[+][:seconds][#rank], by commas.
//
//   oom@3                    the third allocation of device memory fails
//   op:aten::mm@2            the second launch of that operator is refused (`*`: of any)
//   op-late:aten::mm@2       it fails, and a later synchronisation tells
//   stall:1@30               the first launch stands still for 30 seconds
//   late:allreduce@2:1.5     the second such collective or operator runs 1.5 seconds late
//   comm:allreduce@3#1       the third call of that collective fails, on rank 1
//   device-lost@10           the device of the tenth launch is lost: that call and all later ones fail
#pragma once
#include <string>

namespace hetero {

void read_faults(const std::string& text);
// Counts one occasion; whether a fault of this kind is due.
bool fault(const char* kind, const char* name);
// Counts one launch: seconds that it is to be late.
double delay(const char* name);

}  // namespace hetero
