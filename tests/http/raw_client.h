// A client for tests that sends exactly the bytes it is given, written without the server's code.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tenon::test {

struct RawAnswer {
  int status = 0;                              // 0: the connection ended first
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
};

// Blocking, with a limit on every wait; a wait that is over reads as the end of the connection.
class RawClient {
 public:
  explicit RawClient(uint16_t port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return socket_ >= 0; }
  bool Send(std::string_view bytes);
  void ShrinkReceiveBuffer();  // before anything else: makes the kernel hold little for us
  std::string ReadSome();      // "" at the end
  std::string ReadLine();      // without its line end
  std::string ReadBytes(size_t count);
  std::string ReadUntil(std::string_view mark);
  std::string ReadToEnd();
  RawAnswer ReadHead();
  RawAnswer ReadAnswer();  // of a request other than HEAD
  void CloseSending();
  void Close();

  // WebSocket (RFC 6455): frames are masked, as a client's must be.
  bool OpenWebSocket(std::string_view path, std::string_view more_headers = {});
  bool SendFrame(int opcode, std::string_view payload);
  struct Frame {
    int opcode = -1;  // -1: the connection ended
    std::string payload;
  };
  Frame ReadFrame();

 private:
  bool Fill();

  int socket_ = -1;
  std::string input_;
};

// "GET path HTTP/1.1" with a Host.
std::string Get(std::string_view path, std::string_view more_headers = {});
std::string Post(std::string_view path, std::string_view body, std::string_view more_headers = {});

}  // namespace tenon::test
