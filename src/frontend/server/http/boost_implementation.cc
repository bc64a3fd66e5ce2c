// The parts of Asio and Beast that are not templates, compiled once (see their "separate
// compilation").
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
