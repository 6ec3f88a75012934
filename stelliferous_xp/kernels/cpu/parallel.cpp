#include "parallel.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif
#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#endif

namespace stelliferous {
namespace {

constexpr int64_t ALIGNMENT = 64;

class Buffer {
  public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { release(); }

    float* of_size(int64_t floats) {
        if (floats > capacity_) {
            release();
            data_ = static_cast<float*>(::operator new(floats * sizeof(float), std::align_val_t(ALIGNMENT)));
            capacity_ = floats;
        }
        return data_;
    }

  private:
    void release() {
        if (data_) ::operator delete(data_, std::align_val_t(ALIGNMENT));
        data_ = nullptr;
        capacity_ = 0;
    }

    float* data_ = nullptr;
    int64_t capacity_ = 0;
};

thread_local Buffer scratch_buffer;
thread_local Buffer call_buffer;
thread_local bool inside_task = false;

// Other code in the process may have switched to flushing subnormals or another rounding.
class DefaultFloatEnvironment {
  public:
#if defined(__x86_64__) || defined(_M_X64)
    DefaultFloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
    ~DefaultFloatEnvironment() { _mm_setcsr(saved_); }

  private:
    unsigned saved_;
#elif defined(__aarch64__)
    DefaultFloatEnvironment() {
        asm volatile("mrs %0, fpcr" : "=r"(saved_));
        asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
    }
    ~DefaultFloatEnvironment() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

  private:
    uint64_t saved_;
#else
    DefaultFloatEnvironment() {}
#endif
};

struct Job {
    Task task;
    void* context;
    int64_t tasks;
    int64_t scratch_floats;
    std::atomic<int64_t> next{0};

    void run() {
        DefaultFloatEnvironment environment;
        inside_task = true;
        float* scratch = nullptr;
        for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
            if (!scratch && scratch_floats) scratch = scratch_buffer.of_size(scratch_floats);
            task(context, i, scratch);
        }
        inside_task = false;
    }
};

// Waits until done() by spinning for some tens of microseconds; false where that was not enough.
template <class Done>
bool spin_until(Done done) {
    for (int i = 0; i < 1000; ++i) {
        if (done()) return true;
#if defined(__x86_64__) || defined(_M_X64)
        _mm_pause();
#elif defined(__aarch64__)
        asm volatile("isb");
#endif
    }
    return false;
}

class Pool {
  public:
    void run(Job& job, int64_t helpers) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            while (threads_ < helpers && start_thread()) ++threads_;
            job_ = &job;
            places_ = helpers;
            generation_.fetch_add(1, std::memory_order_release);
        }
        for (int64_t i = 0; i < helpers; ++i) wake_.notify_one();
        job.run();
        std::unique_lock<std::mutex> lock(mutex_);
        job_ = nullptr;
        if (active_ == 0) return;
        lock.unlock();
        spin_until([this] { return active_ == 0; });
        lock.lock();
        finished_.wait(lock, [this] { return active_ == 0; });
    }

    std::mutex caller;

  private:
    bool start_thread() {
#if !defined(_WIN32)
        // Signals are for the threads of the program.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
        bool started = true;
        try {
            std::thread([this] { work(); }).detach();
        } catch (const std::system_error&) {
            started = false;
        }
#if !defined(_WIN32)
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
        return started;
    }

    void work() {
        uint64_t seen = 0;
        for (;;) {
            auto changed = [&] { return generation_.load(std::memory_order_acquire) != seen; };
            spin_until(changed);
            std::unique_lock<std::mutex> lock(mutex_);
            wake_.wait(lock, changed);
            seen = generation_;
            if (!job_ || places_ == 0) continue;
            Job& job = *job_;
            --places_;
            ++active_;
            lock.unlock();
            job.run();
            lock.lock();
            if (--active_ == 0) finished_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, finished_;
    std::atomic<uint64_t> generation_{0};
    std::atomic<int64_t> active_{0};
    Job* job_ = nullptr;
    int64_t places_ = 0;
    int64_t threads_ = 0;
};

// Never destroyed: its threads outlive static destruction. A forked child has none of them and starts a new pool.
std::atomic<Pool*> current_pool{nullptr};

Pool& pool() {
    Pool* existing = current_pool.load(std::memory_order_acquire);
    if (existing) return *existing;
#if !defined(_WIN32)
    static const int registered = pthread_atfork(nullptr, nullptr, [] { current_pool.store(nullptr); });
    (void)registered;
#endif
    Pool* fresh = new Pool;
    if (current_pool.compare_exchange_strong(existing, fresh)) return *fresh;
    delete fresh;
    return *existing;
}

}  // namespace

void run_tasks(int64_t tasks, int64_t workers, int64_t scratch_floats, Task task, void* context) {
    if (tasks <= 0) return;
    int64_t helpers = (workers < tasks ? workers : tasks) - 1;
    if (inside_task) {
        // The scratch of this thread is in use by the task that called.
        Buffer own;
        float* scratch = scratch_floats ? own.of_size(scratch_floats) : nullptr;
        for (int64_t i = 0; i < tasks; ++i) task(context, i, scratch);
        return;
    }
    Job job;
    job.task = task;
    job.context = context;
    job.tasks = tasks;
    job.scratch_floats = scratch_floats;
    if (helpers > 0) {
        Pool& shared = pool();
        std::unique_lock<std::mutex> only_caller(shared.caller, std::try_to_lock);
        if (only_caller) {
            shared.run(job, helpers);
            return;
        }
    }
    job.run();
}

float* shared_buffer(int64_t floats) { return call_buffer.of_size(floats); }

}  // namespace stelliferous
