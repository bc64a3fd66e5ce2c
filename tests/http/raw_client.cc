#include "http/raw_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace tenon::test {
namespace {

// Longer than any wait of a test that passes.
constexpr timeval kWait{20, 0};

std::string Lower(std::string text) {
  for (char& c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

RawClient::RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kWait, sizeof(kWait));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kWait, sizeof(kWait));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    Close();
}

RawClient::~RawClient() {
  Close();
}

void RawClient::Close() {
  if (socket_ >= 0)
    ::close(socket_);
  socket_ = -1;
}

void RawClient::CloseSending() {
  ::shutdown(socket_, SHUT_WR);
}

void RawClient::ShrinkReceiveBuffer() {
  const int bytes = 4096;
  setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool RawClient::Fill() {
  std::array<char, 65536> buffer;
  const ssize_t got = ::recv(socket_, buffer.data(), buffer.size(), 0);
  if (got <= 0)
    return false;
  input_.append(buffer.data(), static_cast<size_t>(got));
  return true;
}

std::string RawClient::ReadSome() {
  if (input_.empty())
    Fill();
  return std::exchange(input_, {});
}

std::string RawClient::ReadUntil(std::string_view mark) {
  size_t at = 0;
  while ((at = input_.find(mark)) == std::string::npos) {
    if (!Fill())
      return std::exchange(input_, {});
  }
  std::string text = input_.substr(0, at + mark.size());
  input_.erase(0, text.size());
  return text;
}

std::string RawClient::ReadLine() {
  std::string line = ReadUntil("\r\n");
  if (line.ends_with("\r\n"))
    line.resize(line.size() - 2);
  return line;
}

std::string RawClient::ReadBytes(size_t count) {
  while (input_.size() < count && Fill()) {
  }
  std::string bytes = input_.substr(0, count);
  input_.erase(0, bytes.size());
  return bytes;
}

std::string RawClient::ReadToEnd() {
  while (Fill()) {
  }
  return std::exchange(input_, {});
}

RawAnswer RawClient::ReadHead() {
  RawAnswer answer;
  const std::string status = ReadLine();
  if (!status.starts_with("HTTP/1.") || status.size() < 12)
    return answer;
  answer.status = std::atoi(status.c_str() + 9);
  for (std::string line = ReadLine(); !line.empty(); line = ReadLine()) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos)
      answer.headers[Lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return answer;
}

RawAnswer RawClient::ReadAnswer() {
  RawAnswer answer = ReadHead();
  if (answer.headers.contains("content-length")) {
    answer.body = ReadBytes(std::stoul(answer.headers["content-length"]));
  } else if (answer.headers.contains("transfer-encoding")) {
    for (;;) {
      const std::string size_line = ReadLine();
      const size_t size = std::strtoul(size_line.c_str(), nullptr, 16);
      answer.body += ReadBytes(size);
      ReadLine();
      if (size == 0)
        return answer;
    }
  } else if (answer.status != 204 && answer.status != 0 &&
             answer.headers["connection"] == "close") {
    answer.body = ReadToEnd();
  }
  return answer;
}

bool RawClient::OpenWebSocket(std::string_view path, std::string_view more_headers) {
  // The key and the answer to it are RFC 6455's own example (section 1.3).
  Send(
      fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                  "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                  "Sec-WebSocket-Version: 13\r\n{}\r\n",
                  path, more_headers));
  RawAnswer answer = ReadHead();
  return answer.status == 101 &&
         answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
}

bool RawClient::SendFrame(int opcode, std::string_view payload) {
  std::string frame(1, static_cast<char>(0x80 | opcode));
  // The shortest form of the length is asked for (section 5.2).
  const int length_bytes = payload.size() < 126 ? 0 : payload.size() < 65536 ? 2 : 8;
  const size_t short_length = length_bytes == 0 ? payload.size() : length_bytes == 2 ? 126 : 127;
  frame += static_cast<char>(0x80 | short_length);
  for (int shift = 8 * (length_bytes - 1); shift >= 0; shift -= 8)
    frame += static_cast<char>(static_cast<uint64_t>(payload.size()) >> shift);
  constexpr std::string_view kMask = "\x12\x34\x56\x78";
  frame += kMask;
  for (size_t i = 0; i < payload.size(); ++i)
    frame += static_cast<char>(payload[i] ^ kMask[i % 4]);
  return Send(frame);
}

RawClient::Frame RawClient::ReadFrame() {
  const std::string head = ReadBytes(2);
  if (head.size() < 2)
    return {};
  Frame frame;
  frame.opcode = head[0] & 0x0f;
  uint64_t size = static_cast<unsigned char>(head[1]) & 0x7f;
  if (size >= 126) {
    const std::string digits = ReadBytes(size == 126 ? 2 : 8);
    size = 0;
    for (const char digit : digits)
      size = size << 8 | static_cast<unsigned char>(digit);
  }
  frame.payload = ReadBytes(size);
  return frame;
}

std::string Get(std::string_view path, std::string_view more_headers) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, more_headers);
}

std::string Post(std::string_view path, std::string_view body, std::string_view more_headers) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n{}", path,
                     body.size(), more_headers, body);
}

}  // namespace tenon::test
