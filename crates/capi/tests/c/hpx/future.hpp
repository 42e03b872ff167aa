// A stand-in for what atta_hpx.hpp uses of HPX's futures, so that the header is compiled and its steps are run somewhere. It is
// not HPX: what HPX does with its threads is not tested by it.
#ifndef STAND_IN_HPX_FUTURE_HPP
#define STAND_IN_HPX_FUTURE_HPP

#include <future>
#include <utility>

namespace hpx {

template <class T>
using future = std::future<T>;

template <class T>
using promise = std::promise<T>;

template <class Task>
void post(Task task)
{
    task();
}

} // namespace hpx

#endif
