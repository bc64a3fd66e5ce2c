#include "frontend/server/grpc/grpc_server.h"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/mapped_file.h"
#include "frontend/server/grpc/tenon_service.h"

namespace tenon {
namespace {

// How often the engine's state is looked at for the health service.
constexpr std::chrono::milliseconds kHealthInterval{250};

// Calls at once on one connection; the queue's limit holds for all of them together.
constexpr int kStreamsPerConnection = 1024;

// A peer that vanished without closing is found after these.
constexpr int kKeepaliveTimeMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;

Result<std::string> ReadText(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size());
}

Result<std::shared_ptr<grpc::ServerCredentials>> CredentialsOf(const GrpcServerOptions& options) {
  if (options.tls_certificate_file.empty())
    return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  TENON_ASSIGN_OR_RETURN(pair.cert_chain, ReadText(options.tls_certificate_file));
  TENON_ASSIGN_OR_RETURN(pair.private_key, ReadText(options.tls_key_file));
  grpc::SslServerCredentialsOptions ssl;
  ssl.pem_key_cert_pairs.push_back(std::move(pair));
  return grpc::SslServerCredentials(ssl);
}

std::string AddressOf(const GrpcServerOptions& options) {
  const bool bare_v6 =
      options.host.find(':') != std::string::npos && !options.host.starts_with('[');
  return fmt::format(fmt::runtime(bare_v6 ? "[{}]:{}" : "{}:{}"), options.host, options.port);
}

class GrpcServerImpl final : public GrpcServer {
 public:
  GrpcServerImpl(ApiContext& context, const GrpcServerOptions& options)
      : context_(context), service_(context, options) {}
  ~GrpcServerImpl() override { Stop(std::chrono::milliseconds(0)); }

  Status Bind(const GrpcServerOptions& options);
  uint16_t port() const override { return static_cast<uint16_t>(port_); }
  void Stop(std::chrono::milliseconds limit) override;

 private:
  void WatchHealth();
  bool IsReady() const {
    const ServingEngine* engine = context_.engine();
    return engine != nullptr && engine->health() == Health::kReady;
  }

  ApiContext& context_;
  TenonService service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;  // guarded by mutex_
  std::thread watcher_;
};

Status GrpcServerImpl::Bind(const GrpcServerOptions& options) {
  TENON_ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(options));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(AddressOf(options), credentials, &port_);
  builder.RegisterService(&service_);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  // Two servers on one port would share its calls in silence.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    return MakeError(ErrorCode::kIo,
                     fmt::format("gRPC can't listen on {}: the address is taken or unknown, or the "
                                 "TLS files don't fit",
                                 AddressOf(options)),
                     "--grpc-port");
  }
  watcher_ = std::thread([this] { WatchHealth(); });
  return {};
}

void GrpcServerImpl::WatchHealth() {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  bool known = !IsReady();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (const bool ready = IsReady(); ready != known) {
      health->SetServingStatus(ready);  // "", the server as a whole
      health->SetServingStatus(v1::Tenon::service_full_name(), ready);
      known = ready;
    }
    stop_changed_.wait_for(lock, kHealthInterval, [this] { return stop_; });
  }
}

void GrpcServerImpl::Stop(std::chrono::milliseconds limit) {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  if (watcher_.joinable())
    watcher_.join();
  if (server_ == nullptr)
    return;
  server_->Shutdown(std::chrono::system_clock::now() + limit);
  server_->Wait();
  server_.reset();
}

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(ApiContext& context,
                                                      const GrpcServerOptions& options) {
  auto server = std::make_unique<GrpcServerImpl>(context, options);
  TENON_RETURN_IF_ERROR(server->Bind(options));
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace tenon
