// atta_status.hpp: the functions of atta_status.h for C++20: objects that give themselves back, and exceptions. Header only;
// link with libatta.
//
//     atta::mounts mounts;                               // the table of this process
//     std::string name = mounts.uri("/home/me").text();
//     atta::status status(mounts);                       // alone; or with ranks: an atta::collective, or a table of C
//     if (status.is_unique("/home/me") == atta::answer::yes) ...
//
// What fails throws std::system_error with the errno of atta_status.h, which says what is collective. A path with a zero byte is
// EINVAL.
#ifndef ATTA_STATUS_HPP
#define ATTA_STATUS_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "atta_status.h"

namespace atta {

/// An answer of a query. Unknown is not a failure: names do not decide.
enum class answer { no = ATTA_NO, yes = ATTA_YES, unknown = ATTA_UNKNOWN };

/// How two names relate.
enum class relation { different = ATTA_DIFFERENT, same = ATTA_SAME, unknown = ATTA_UNKNOWN };

/// What can be asked of a path.
enum class query {
    is_fully_distributed = ATTA_IS_FULLY_DISTRIBUTED,
    is_well_distributed = ATTA_IS_WELL_DISTRIBUTED,
    is_poorly_distributed = ATTA_IS_POORLY_DISTRIBUTED,
    is_unique = ATTA_IS_UNIQUE,
    is_consistent = ATTA_IS_CONSISTENT
};

namespace detail {

inline void check(int code, const char *what)
{
    if (code != 0)
        throw std::system_error(errno, std::generic_category(), what);
}

inline const char *checked(const char *text, const char *what)
{
    if (text == nullptr)
        throw std::system_error(errno, std::generic_category(), what);
    return text;
}

/// A path that ends with NUL. One with a zero byte becomes a relative one: EINVAL, of which the other ranks of a query learn.
class path {
public:
    explicit path(std::string_view text) : text_(text.find('\0') == std::string_view::npos ? text : "relative") {}

    const char *get() const noexcept { return text_.c_str(); }

private:
    std::string text_;
};

/// An object by its number, which is given back with this.
class object {
public:
    object(object &&other) noexcept : number_(std::exchange(other.number_, 0)) {}
    object(const object &) = delete;
    object &operator=(const object &) = delete;

    object &operator=(object &&other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }

    /// The number, for functions of atta_status.h.
    std::uint64_t get() const noexcept { return number_; }

protected:
    explicit object(std::uint64_t number) noexcept : number_(number) {}

    ~object()
    {
        if (number_ != 0)
            atta_free(number_);
    }

private:
    std::uint64_t number_;
};

/// Makes an object with a function of atta_status.h.
template <class Function, class... Arguments>
std::uint64_t made(const char *what, Function function, Arguments... arguments)
{
    std::uint64_t number = 0;
    check(function(arguments..., &number), what);
    return number;
}

/// Asks something with a function of atta_status.h.
template <class Result, class Function, class... Arguments>
Result asked(const char *what, Function function, Arguments... arguments)
{
    int result = 0;
    check(function(arguments..., &result), what);
    return static_cast<Result>(result);
}

} // namespace detail

/// A mount.
class mount : public detail::object {
public:
    explicit mount(std::uint64_t number) noexcept : object(number) {}

    std::string point() const { return detail::checked(atta_mount_point(get()), "atta_mount_point"); }
    std::string type() const { return detail::checked(atta_mount_type(get()), "atta_mount_type"); }
    std::string source() const { return detail::checked(atta_mount_source(get()), "atta_mount_source"); }
};

/// The global name of a file.
class uri : public detail::object {
public:
    explicit uri(std::uint64_t number) noexcept : object(number) {}

    /// For people.
    std::string text() const { return detail::checked(atta_uri_text(get()), "atta_uri_text"); }

    /// For comparison.
    std::string canonical() const { return detail::checked(atta_uri_canonical(get()), "atta_uri_canonical"); }

    /// Whether both are one file.
    atta::relation relation(const uri &other) const
    {
        return detail::asked<atta::relation>("atta_uri_relation", atta_uri_relation, get(), other.get());
    }

    /// Whether both are on one file system.
    atta::relation file_system_relation(const uri &other) const
    {
        return detail::asked<atta::relation>("atta_uri_file_system_relation", atta_uri_file_system_relation,
                                             get(), other.get());
    }
};

/// A mount table.
class mounts : public detail::object {
public:
    /// That of this process.
    mounts() : object(detail::made("atta_mounts_read", atta_mounts_read)) {}

    /// That of any host, from the text of its /proc/self/mountinfo.
    mounts(std::string_view lines, const std::string &boot_id, const std::string &host)
        : object(detail::made("atta_mounts_from_text", atta_mounts_from_text,
                              static_cast<const void *>(lines.data()), lines.size(), boot_id.c_str(), host.c_str()))
    {
    }

    /// Whether there was a change, which this table has now.
    bool refresh() { return detail::asked<bool>("atta_mounts_refresh", atta_mounts_refresh, get()); }

    /// The mount that a path leads to.
    atta::mount mount(std::string_view path) const
    {
        return atta::mount(
            detail::made("atta_mounts_mount", atta_mounts_mount, get(), detail::path(path).get()));
    }

    /// The global name of a path.
    atta::uri uri(std::string_view path) const
    {
        return atta::uri(detail::made("atta_mounts_uri", atta_mounts_uri, get(), detail::path(path).get()));
    }
};

/// Measured speeds of file systems.
class speeds : public detail::object {
public:
    /// Those of a file. One that does not exist has none.
    explicit speeds(const std::string &file)
        : object(detail::made("atta_speeds_load", atta_speeds_load, file.c_str()))
    {
    }

    void save(const std::string &file) const
    {
        detail::check(atta_speeds_save(get(), file.c_str()), "atta_speeds_save");
    }

    /// Measures the speed of a directory now.
    void measure(const mounts &table, std::string_view directory, int timeout_ms = -1)
    {
        detail::check(atta_speeds_measure(get(), table.get(), detail::path(directory).get(), timeout_ms),
                      "atta_speeds_measure");
    }
};

/// File systems that suit what a job writes, suitable ones first, the best first.
class places : public detail::object {
public:
    explicit places(std::uint64_t number) noexcept : object(number) {}

    std::size_t size() const
    {
        std::size_t count = 0;
        detail::check(atta_places_count(get(), &count), "atta_places_count");
        return count;
    }

    /// A place by its number, from 0. Its texts stay as long as this object.
    atta_place operator[](std::size_t number) const
    {
        atta_place place{};
        place.size = sizeof place;
        detail::check(atta_places_get(get(), number, &place), "atta_places_get");
        return place;
    }
};

/// How ranks communicate: a program derives from this, or fills in the table of atta_status.h. Functions are called by the
/// thread that asks. One that throws makes the query fail: std::system_error with its value if that is positive,
/// std::bad_alloc with ENOMEM, anything else with EIO.
class collective {
public:
    virtual ~collective() = default;

    /// This rank, from 0, and how many there are.
    virtual std::uint32_t rank() const = 0;
    virtual std::uint32_t ranks() const = 0;

    /// One send meets one receive, in order, with the same count.
    virtual void send(std::uint32_t to, const void *bytes, std::size_t count) = 0;
    virtual void receive(std::uint32_t from, void *bytes, std::size_t count) = 0;

    /// The table of C. This object must stay where it is until the status is gone.
    atta_collective table()
    {
        atta_collective table{};
        table.size = sizeof table;
        table.data = this;
        table.rank = rank();
        table.ranks = ranks();
        table.send = [](void *data, std::uint32_t to, const void *bytes, std::size_t count) noexcept {
            return caught([&] { static_cast<collective *>(data)->send(to, bytes, count); });
        };
        table.receive = [](void *data, std::uint32_t from, void *bytes, std::size_t count) noexcept {
            return caught([&] { static_cast<collective *>(data)->receive(from, bytes, count); });
        };
        return table;
    }

private:
    template <class Function>
    static int caught(Function function) noexcept
    {
        try {
            function();
            return 0;
        } catch (const std::system_error &error) {
            return error.code().value() > 0 ? error.code().value() : EIO;
        } catch (const std::bad_alloc &) {
            return ENOMEM;
        } catch (...) {
            return EIO;
        }
    }
};

/// A path as all ranks see it. Ranks that see the same file are a group.
class distribution : public detail::object {
public:
    explicit distribution(std::uint64_t number) noexcept : object(number) {}

    /// An answer, without contents of files.
    atta::answer ask(query what) const
    {
        return detail::asked<atta::answer>("atta_distribution_ask", atta_distribution_ask, get(),
                                           static_cast<int>(what));
    }

    /// The number of groups.
    atta_groups groups() const
    {
        atta_groups groups{};
        groups.size = sizeof groups;
        detail::check(atta_distribution_groups(get(), &groups), "atta_distribution_groups");
        return groups;
    }

    /// A group by its number, from 0.
    atta_group group(std::uint32_t number) const
    {
        atta_group group{};
        group.size = sizeof group;
        detail::check(atta_distribution_group(get(), number, &group), "atta_distribution_group");
        return group;
    }

    /// The ranks of a group that are listed, ascending.
    std::vector<std::uint32_t> members(std::uint32_t number) const
    {
        std::vector<std::uint32_t> ranks(group(number).listed);
        std::size_t count = 0;
        detail::check(atta_distribution_members(get(), number, ranks.data(), ranks.size(), &count),
                      "atta_distribution_members");
        ranks.resize(count);
        return ranks;
    }

    /// The place of this rank. None: no groups are listed.
    std::optional<atta_descriptor> descriptor() const
    {
        atta_descriptor descriptor{};
        descriptor.size = sizeof descriptor;
        if (atta_distribution_descriptor(get(), &descriptor) == 0)
            return descriptor;
        if (errno == ENODATA)
            return std::nullopt;
        detail::check(-1, "atta_distribution_descriptor");
        return std::nullopt;
    }
};

namespace detail {

/// The queries by name, of whatever has ask(query, path).
template <class Asked>
class queries : public object {
public:
    /// All ranks have it on their own hosts.
    atta::answer is_fully_distributed(std::string_view path) const { return ask(query::is_fully_distributed, path); }

    /// It is on many servers, or on all hosts.
    atta::answer is_well_distributed(std::string_view path) const { return ask(query::is_well_distributed, path); }

    /// Many ranks share a server of it.
    atta::answer is_poorly_distributed(std::string_view path) const { return ask(query::is_poorly_distributed, path); }

    /// All ranks see one file.
    atta::answer is_unique(std::string_view path) const { return ask(query::is_unique, path); }

    /// The files that ranks see are equal.
    atta::answer is_consistent(std::string_view path) const { return ask(query::is_consistent, path); }

protected:
    explicit queries(std::uint64_t number) noexcept : object(number) {}

private:
    atta::answer ask(query what, std::string_view path) const
    {
        return static_cast<const Asked *>(this)->ask(what, path);
    }
};

} // namespace detail

/// Queries without a message, from the mount points of all ranks.
class mount_map : public detail::queries<mount_map> {
public:
    explicit mount_map(std::uint64_t number) noexcept : queries(number) {}

    /// One that ranks saved, for a program without ranks.
    mount_map(const std::string &file, const mounts &table) : mount_map(loaded(file, table)) {}

    /// Seconds since it was saved; 0: it was not loaded.
    std::uint64_t age_s() const noexcept { return age_s_; }

    atta::answer ask(query what, std::string_view path) const
    {
        return detail::asked<atta::answer>("atta_map_ask", atta_map_ask, get(), static_cast<int>(what),
                                           detail::path(path).get());
    }

    atta::distribution distribution(std::string_view path) const
    {
        return atta::distribution(
            detail::made("atta_map_distribution", atta_map_distribution, get(), detail::path(path).get()));
    }

private:
    static mount_map loaded(const std::string &file, const mounts &table)
    {
        std::uint64_t age_s = 0;
        mount_map map(detail::made("atta_map_load", atta_map_load, file.c_str(), table.get(), &age_s));
        map.age_s_ = age_s;
        return map;
    }

    std::uint64_t age_s_ = 0;
};

/// One rank among others. All ranks make it, and ask it the same in the same order.
class status : public detail::queries<status> {
public:
    /// Alone.
    explicit status(const mounts &table, atta_status_options options = {})
        : queries(joined(table, nullptr, options))
    {
    }

    /// With ranks of a table of C: MPI, or the program's own.
    status(const mounts &table, const atta_collective &ranks, atta_status_options options = {})
        : queries(joined(table, &ranks, options))
    {
    }

    /// With ranks of the program's own class, which must outlive this object.
    status(const mounts &table, collective &ranks, atta_status_options options = {})
        : status(table, ranks.table(), options)
    {
    }

    atta::answer ask(query what, std::string_view path) const
    {
        return detail::asked<atta::answer>("atta_status_ask", atta_status_ask, get(), static_cast<int>(what),
                                           detail::path(path).get());
    }

    /// How a path is distributed.
    atta::distribution distribution(std::string_view path) const
    {
        return atta::distribution(
            detail::made("atta_status_distribution", atta_status_distribution, get(), detail::path(path).get()));
    }

    /// The same with all groups and all of their members.
    atta::distribution groups(std::string_view path) const
    {
        return atta::distribution(
            detail::made("atta_status_groups", atta_status_groups, get(), detail::path(path).get()));
    }

    /// A map of the mount points of all ranks.
    mount_map map() const { return mount_map(detail::made("atta_map_build", atta_map_build, get())); }

    /// Saves the map of this status, on this rank if a file is named. All ranks call it.
    void save(const mount_map &map, const std::optional<std::string> &file) const
    {
        detail::check(atta_map_save(get(), map.get(), file ? file->c_str() : nullptr), "atta_map_save");
    }

    /// Which file systems suit what a job writes, with the map of this status, and with the speeds that this rank knows.
    atta::places places(const mount_map &map, atta_requirements requirements, const speeds *known = nullptr) const
    {
        requirements.size = sizeof requirements;
        return atta::places(detail::made("atta_places_find", atta_places_find, get(), map.get(),
                                         known == nullptr ? std::uint64_t{0} : known->get(),
                                         static_cast<const atta_requirements *>(&requirements)));
    }

    /// The rank because of which the last query failed. None: it did not, or not because of a rank.
    std::optional<std::uint32_t> failed_rank() const
    {
        std::uint32_t rank = 0;
        if (atta_status_failed_rank(get(), &rank) == 0)
            return rank;
        if (errno != ENODATA)
            detail::check(-1, "atta_status_failed_rank");
        return std::nullopt;
    }

private:
    static std::uint64_t joined(const mounts &table, const atta_collective *ranks, atta_status_options options)
    {
        options.size = sizeof options;
        return detail::made("atta_status_join", atta_status_join, table.get(), ranks,
                            static_cast<const atta_status_options *>(&options));
    }
};

} // namespace atta

#endif
