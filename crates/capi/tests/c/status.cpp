// atta_status.hpp: objects, exceptions, and ranks of the program's own class.
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "atta_status.hpp"
#include "check.h"

namespace {

using atta::answer;

constexpr std::string_view lines = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                                   "36 21 0:40 / /home rw - nfs4 Server:/export rw,addr=192.0.2.7\n";

// The errno of what must fail.
template <class Function>
int error_of(Function function)
{
    try {
        function();
    } catch (const std::system_error &error) {
        return error.code().value();
    }
    return 0;
}

atta::mounts table(int host)
{
    return {lines, "boot" + std::to_string(host), "node"};
}

void names()
{
    atta::mounts mounts = table(1), live;
    live.refresh();
    CHECK(live.mount("/").point() == "/");
    atta::mount mount = mounts.mount("/home/f");
    CHECK(mount.point() == "/home" && mount.type() == "nfs4" && mount.source() == "Server:/export");
    atta::uri home = mounts.uri("/home/f"), etc = mounts.uri("/etc"), there = table(2).uri("/home/f");
    CHECK(home.text() == "nfs://server/export/f" && home.canonical() == "nfs://192.0.2.7/export/f");
    CHECK(home.relation(there) == atta::relation::same && home.relation(etc) == atta::relation::unknown);
    CHECK(etc.file_system_relation(table(2).uri("/etc")) == atta::relation::different);
    // Moved objects.
    atta::uri moved = std::move(home);
    etc = std::move(moved);
    CHECK(etc.text() == "nfs://server/export/f");
    CHECK(error_of([&] { home.text(); }) == EBADF);
    CHECK(error_of([&] { mounts.uri(""); }) == ENOENT);
    CHECK(error_of([&] { mounts.uri("home"); }) == EINVAL);
    CHECK(error_of([&] { mounts.mount(std::string_view("/ho\0me", 6)); }) == EINVAL);
    CHECK(error_of([] { atta::mounts("no line", "boot", "node"); }) == EINVAL);
    CHECK(error_of([&] { mounts.refresh(); }) == EOPNOTSUPP);
}

// Messages in memory.
struct mail {
    std::mutex lock;
    std::condition_variable came;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::string>> messages;
};

class threads : public atta::collective {
public:
    threads(mail &all, std::uint32_t rank, std::uint32_t ranks) : all_(all), rank_(rank), ranks_(ranks) {}

    std::uint32_t rank() const override { return rank_; }
    std::uint32_t ranks() const override { return ranks_; }

    void send(std::uint32_t to, const void *bytes, std::size_t count) override
    {
        std::lock_guard<std::mutex> guard(all_.lock);
        all_.messages[{rank_, to}].emplace_back(static_cast<const char *>(bytes), count);
        all_.came.notify_all();
    }

    void receive(std::uint32_t from, void *bytes, std::size_t count) override
    {
        std::unique_lock<std::mutex> guard(all_.lock);
        auto &messages = all_.messages[{from, rank_}];
        all_.came.wait(guard, [&] { return !messages.empty(); });
        CHECK(messages.front().size() == count);
        std::memcpy(bytes, messages.front().data(), count);
        messages.pop_front();
        if (throws == 1)
            throw std::system_error(ECOMM, std::generic_category());
        if (throws == 2)
            throw std::bad_alloc();
        if (throws == 3)
            throw 7;
    }

    int throws = 0;

private:
    mail &all_;
    std::uint32_t rank_, ranks_;
};

void queries(std::uint32_t rank, const atta::status &status)
{
    CHECK(status.is_unique("/home/f") == answer::yes && status.is_unique("/etc") == answer::no);
    CHECK(status.is_fully_distributed("/etc") == answer::yes);
    CHECK(status.is_poorly_distributed("/home/f") == answer::yes);
    CHECK(status.is_well_distributed("/home/f") == answer::no);
    CHECK(status.is_consistent("/home/f") == answer::yes);
    atta::distribution found = status.groups("/etc");
    CHECK(found.groups().low == 3 && found.groups().listed == 3 && found.group(1).representative == 1);
    CHECK(found.members(2) == std::vector<std::uint32_t>{2});
    CHECK(found.descriptor()->group == rank && found.ask(atta::query::is_unique) == answer::no);
    CHECK(error_of([&] { found.group(3); }) == EINVAL);
    CHECK(status.distribution("/home/f").members(0).size() == 3);

    atta::mount_map map = status.map();
    CHECK(map.is_unique("/home/f") == answer::yes && map.is_consistent("/etc") == answer::unknown);
    CHECK(map.is_fully_distributed("/etc") == answer::yes && map.is_well_distributed("/etc") == answer::yes);
    CHECK(map.is_poorly_distributed("/etc") == answer::no && map.distribution("/etc").groups().high == 3);

    // One rank has a wrong path: all learn of it, and go on.
    std::string_view path = rank == 1 ? std::string_view("/ho\0me", 6) : "/home";
    CHECK(error_of([&] { status.is_unique(path); }) == (rank == 1 ? EINVAL : ENODEV));
    CHECK(status.failed_rank() == 1u);
    CHECK(status.is_unique("/home") == answer::yes && !status.failed_rank());
}

void ranks()
{
    mail all;
    std::vector<std::thread> running;
    for (std::uint32_t rank = 0; rank < 3; rank++) {
        running.emplace_back([&all, rank] {
            const int errors[] = {ECOMM, ENOMEM, EIO};
            threads own(all, rank, 3);
            atta::mounts mounts = table(static_cast<int>(rank));
            queries(rank, atta::status(mounts, own));
            for (int how = 1; how <= 3; how++) {
                atta::status status(mounts, own);
                own.throws = rank == 0 ? how : 0;
                CHECK(error_of([&] { status.is_unique("/home"); }) == errors[how - 1]);
                own.throws = 0;
            }
        });
    }
    for (std::thread &each : running)
        each.join();
}

// Maps and speeds in files, and places.
void files(const atta::status &status, const atta::mounts &mounts, const std::string &directory)
{
    atta::mount_map map = status.map();
    status.save(map, directory + "/map");
    status.save(map, std::nullopt);
    atta::mount_map loaded(directory + "/map", mounts);
    CHECK(loaded.is_unique("/home/f") == answer::yes && loaded.age_s() < 1000);
    CHECK(error_of([&] { atta::mount_map("/proc/self/status", mounts); }) == EBADMSG);

    atta::speeds speeds(directory + "/speeds");
    speeds.save(directory + "/speeds");
    CHECK(error_of([&] { speeds.measure(mounts, "relative"); }) == EINVAL);
    atta_requirements wanted{};
    wanted.distribution = ATTA_DISTRIBUTION_UNIQUE;
    wanted.wait_ms = 100000;
    atta::places places = status.places(map, wanted, &speeds);
    CHECK(places.size() == 2 && places[0].unmet == 0 && places[0].score > 0);
    CHECK(error_of([&] { places[2]; }) == EINVAL);
    CHECK(status.places(map, {}).size() == 2);
}

} // namespace

int main(int count, char **arguments)
{
    CHECK(count == 2);
    names();
    ranks();
    atta::mounts mounts = table(1);
    atta_status_options options{};
    options.ranks_per_server = 2;
    atta::status alone(mounts, options);
    CHECK(alone.is_unique("/etc") == answer::yes && alone.map().is_unique("/etc") == answer::yes);
    files(alone, mounts, arguments[1]);
    return 0;
}
