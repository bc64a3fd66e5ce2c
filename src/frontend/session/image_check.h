// Remembering that a file of packed weights has been compared with its digest.
//
// A small file beside the image (its name with ".checked") says which state of it was found whole:
// the system's boot, the image's device, inode, size and times of change. Nothing that writes to
// the image leaves all of them as they were, and a power failure, which may tear what was not
// synced, ends the boot. Its own time of change is when the image was last used.
// Threading: free functions; processes may race, the last one's word stands and either is right.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace tenon {

// A file that this user has put there. Others are not read: they could hold anything.
bool IsOfThisUser(const std::filesystem::path& path);

// The image's state in a line. Empty: it or the boot can't be told, or it changed just now and
// could change again without another time, so nothing is remembered.
std::string ImageState(const std::filesystem::path& image);

// Whether the image was found whole in this state, which it has now. Only a word of this user
// counts.
bool IsImageChecked(const std::filesystem::path& image, const std::string& state);

// The image was found whole, and had this state before it was looked at; it is used now. A
// directory that can't be written to is no error: the next start compares again.
void RememberImageCheck(const std::filesystem::path& image, const std::string& state);

// Sets the time of last use to now.
void MarkImageUsed(const std::filesystem::path& image);

// The last use, or when it was written, whichever is later.
std::filesystem::file_time_type LastImageUse(const std::filesystem::path& image);

// Whether `path` remembers an image that is no longer there.
bool IsCheckWithoutImage(const std::filesystem::path& path);

// Removes the image and what is remembered of it. False: the image is still there, by `error`.
bool RemoveImage(const std::filesystem::path& image, std::error_code& error);

}  // namespace tenon
