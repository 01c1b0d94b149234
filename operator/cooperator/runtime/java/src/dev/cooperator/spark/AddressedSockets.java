package dev.cooperator.spark;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import javax.net.SocketFactory;
import jdk.net.ExtendedSocketOptions;

/**
 * Sockets that connect to one address, whatever the name of the host means, and notice within 15 s that a
 * server that is waited for is gone. The driver of PostgreSQL creates it by its name.
 */
public final class AddressedSockets extends SocketFactory {
  private static final int NETWORK_S = 15;

  private final String address;

  /** {@code address} is numeric. */
  public AddressedSockets(String address) {
    this.address = address;
  }

  @Override
  public Socket createSocket() throws IOException {
    Socket socket =
        new Socket() {
          @Override
          public void connect(SocketAddress endpoint, int timeoutMs) throws IOException {
            super.connect(there(((InetSocketAddress) endpoint).getPort()), timeoutMs);
          }
        };
    socket.setKeepAlive(true);
    socket.setOption(ExtendedSocketOptions.TCP_KEEPIDLE, NETWORK_S / 3);
    socket.setOption(ExtendedSocketOptions.TCP_KEEPINTERVAL, NETWORK_S / 3);
    socket.setOption(ExtendedSocketOptions.TCP_KEEPCOUNT, 2);
    return socket;
  }

  private InetSocketAddress there(int port) throws IOException {
    return new InetSocketAddress(InetAddress.getByName(address), port);
  }

  @Override
  public Socket createSocket(String host, int port) throws IOException {
    Socket socket = createSocket();
    socket.connect(there(port));
    return socket;
  }

  @Override
  public Socket createSocket(String host, int port, InetAddress local, int localPort) throws IOException {
    return createSocket(host, port);
  }

  @Override
  public Socket createSocket(InetAddress host, int port) throws IOException {
    return createSocket(host.getHostName(), port);
  }

  @Override
  public Socket createSocket(InetAddress host, int port, InetAddress local, int localPort)
      throws IOException {
    return createSocket(host.getHostName(), port);
  }
}
