import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** Shows the access token that is the option `token` of the line of JAAS. */
public final class TokenOfJaas implements AuthenticateCallbackHandler {
    private static final long LIFETIME_MS = 300_000;
    private String token;

    @Override
    public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
        token = (String) entries.get(0).getOptions().get("token");
    }

    @Override
    public void handle(Callback[] callbacks) {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerTokenCallback) {
                ((OAuthBearerTokenCallback) callback).token(new Token(token));
            }
        }
    }

    @Override
    public void close() {}

    private static final class Token implements OAuthBearerToken {
        private final String value;

        Token(String value) {
            this.value = value;
        }

        @Override
        public String value() {
            return value;
        }

        @Override
        public Set<String> scope() {
            return Collections.emptySet();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + LIFETIME_MS;
        }

        @Override
        public String principalName() {
            return "of-the-token";
        }

        @Override
        public Long startTimeMs() {
            return System.currentTimeMillis();
        }
    }
}
