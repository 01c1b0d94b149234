package dev.cooperator.spark;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler;

/**
 * Logs in by OAUTHBEARER with the token in a file, which is read for each login. Kafka's own handler reads
 * it once before 4.1, so that a token that the kubelet has renewed would never be seen.
 */
public final class TokenFileLogin implements AuthenticateCallbackHandler {
  private Map<String, ?> settings;
  private String mechanism;
  private List<AppConfigurationEntry> entries;

  @Override
  public void configure(
      Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
    this.settings = settings;
    this.mechanism = mechanism;
    this.entries = entries;
  }

  @Override
  public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
    OAuthBearerLoginCallbackHandler handler = new OAuthBearerLoginCallbackHandler();
    try {
      handler.configure(settings, mechanism, entries);
      handler.handle(callbacks);
    } finally {
      handler.close();
    }
  }

  @Override
  public void close() {}
}
